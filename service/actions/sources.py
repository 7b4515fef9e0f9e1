"""Actions of a request whose features are parsed only where they are needed.

Most actions come from a catalogue, so a worker sees the same JSON again. It then needs only the vector of the features,
which `FactorReader` keeps by their JSON.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from service.actions.definition import GivenActionFeatures
from service.strict_body import Body

_MOST_BYTES = 2**23
"""Maximum bytes in each of the two generations of known features."""

_READER = TypeAdapter[Any](GivenActionFeatures, config=Body.model_config)  # as for an action in a request


class SourceAction:
    """A `GivenAction` that keeps the JSON of its features.

    Attributes:
        id: as in `GivenAction`.
        source: the JSON of its features, which is valid.
    """

    __slots__ = ("_features", "id", "source")

    def __init__(self, id_: str, source: bytes) -> None:
        self.id, self.source = id_, source
        self._features: Any = None

    @property
    def features(self) -> Any:
        """As in `GivenAction`."""
        if self._features is None:
            self._features = _READER.validate_json(self.source)
        return self._features


class SourceReader:
    """Reads actions. Remembers the features that it has checked, in two generations."""

    def __init__(self) -> None:
        self._recent = set[bytes]()
        self._older = set[bytes]()
        self._bytes = 0

    def read(self, actions: Iterable[tuple[str, bytes]]) -> list[SourceAction] | None:
        """Return actions, given the id and the JSON of the features of each; None if one has invalid features."""
        found, known = list[SourceAction](), self._recent
        for id_, source in actions:
            if source not in known:
                if not self._is_valid(source):
                    return None
                known = self._recent
            found.append(SourceAction(id_, source))
        return found

    def _is_valid(self, source: bytes) -> bool:
        if source not in self._older:
            try:
                _READER.validate_json(source)
            except ValidationError:
                return False
        if self._bytes > _MOST_BYTES:
            self._older, self._recent, self._bytes = self._recent, set(), 0
        self._recent.add(source)
        self._bytes += len(source)
        return True

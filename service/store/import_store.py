"""The part of the store's interface that imports complete rounds into a log. See `service.store.base`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from service.store.stored_models import ModelKey

MOST_SOURCES = 100
"""Maximum sources per model whose positions are kept: those that were used last."""


class ImportBlock(NamedTuple):
    """Predictions to import together, and their outcomes."""

    id: str
    record: bytes
    outcomes: bytes  # for each prediction: the reward as a float64, the encoded truth (every bit 1 if unknown)


class ImportPart(NamedTuple):
    """Consecutive rounds of a source, to append to the log together or not at all."""

    source: str
    place: int  # the number of rounds before them in the source
    size: int  # the number of rounds
    blocks: Sequence[ImportBlock]
    digest: bytes  # of the history that the records take into account


class Imported(NamedTuple):
    """The result of an import."""

    position: int  # the number of rounds imported from the source so far
    round_count: int  # total rounds in the log
    change_count: int  # total changes in the log
    appended: bool  # whether this call appended the rounds


class ImportedSource(NamedTuple):
    """A source of imported rounds."""

    source: str
    position: int
    at: float  # when it was used last, in seconds since the epoch


class ImportStore(Protocol):
    """Imports rounds, each exactly once. Each change is atomic."""

    async def import_rounds(self, key: ModelKey, part: ImportPart, now: float) -> Imported:
        """Append rounds to the log if exactly the rounds before them have been imported from their source.

        Otherwise, or if the model has changed, nothing is appended. Repeating a call appends nothing further.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if its counters, its log or the position are damaged.
        """

    async def read_imports(self, key: ModelKey) -> list[ImportedSource]:
        """Return the sources of imported rounds, the last used one first.

        Raises:
            StoreCorruptError: if a position is damaged.
        """

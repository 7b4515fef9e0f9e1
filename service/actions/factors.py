"""Reads the features of contexts and actions, each as a hash, a number and a namespace."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from learners.actions.vectors import Hashes
from learners.base import FloatArray, IntArray
from learners.mathematics.preparation import LARGEST_NUMBER
from service.actions.definition import GivenAction, SourceAction
from service.contexts.hashing import hashes_of
from service.contexts.kind import ContextKind
from service.contexts.named import MOST_FEATURES
from service.error_messages.patterns import MOST_NAME, MOST_TEXT
from service.errors import InvalidInputError

_MOST_CACHED = 500_000  # features (12 MB) that fill a cache's recent generation, which then replaces the older one


_NO_PLACES = np.empty(0, np.int64)


class Factors(NamedTuple):
    """The m features of a context or an action."""

    hashes: Hashes  # (m,), the hashes of the features' names; their indices if vectors are not hashed
    values: FloatArray  # (m,)
    groups: IntArray  # (m,), the number of each feature's namespace; 0 for namespaces without interactions
    places: IntArray = _NO_PLACES  # (m,), see `service.contexts.kind.Parts`


class FactorReader:
    """Reads the contexts, or the actions, of one model. `groups` numbers the namespaces with interactions, from 1."""

    def __init__(self, kind: ContextKind[Any], groups: Mapping[str, int], hashed: bool) -> None:
        self.kind = kind
        self._groups = groups
        self._hashed = hashed  # if False, `Factors.hashes` contains the indices of the features
        self._recent: dict[Any, Factors] = {}
        self._older: dict[Any, Factors] = {}
        self._cached = 0  # approximate size of the recent generation, in features of 24 bytes

    @property
    def cache_bytes(self) -> int:
        """The approximate memory of the cache in bytes."""
        return 2 * 24 * self._cached

    def read(self, given: object, path: str) -> Factors:
        """Return the features of a parsed context or action; raise `InvalidInputError` with a field below `path`."""
        try:
            return self._read(given)
        except InvalidInputError as error:
            raise _renamed(error, path) from None

    def read_action(self, action: GivenAction | SourceAction, path: str) -> Factors:
        """Return the features of an action, as `read` does. An action's `source`, if any, is its key in the cache."""
        source = action.source
        if source is None:
            known = None if self.kind.blocks else self._read_cached(action.features)
            return known or self.read(action.features, path)
        found = self._recent.get(source)
        if found is None:
            found = self._older.get(source)
            try:
                found = found or self._new(action.features)
            except InvalidInputError as error:
                raise _renamed(error, path) from None
            self._keep(source, found)
        return found

    def reading_cost(self, action: GivenAction | SourceAction) -> int:
        """Return the approximate cost of `read_action`, in multiply-adds."""
        if action.source is None:
            return self.kind.reading_cost(action.features)
        return self.kind.source_cost(action.source)

    def names(self, given: object) -> list[str]:
        """Return the names of the features that `read` returns for the same argument, in the same order."""
        return self.kind.part_names(given)

    def _read_cached(self, given: object) -> Factors | None:
        try:
            return self._recent.get(_key(given))
        except TypeError:  # unhashable: some values are lists or objects
            return self._recent.get(repr(given))

    def _read(self, given: object) -> Factors:
        if not self.kind.has_names or self.kind.blocks:  # a key for a vector would cost more than reading it
            return self._new(given)
        found = self._read_cached(given)
        if found is None:
            key = _key(given)
            try:
                found = self._older.get(key)
            except TypeError:
                key = repr(given)
                found = self._older.get(key)
            found = found or self._new(given)
            self._keep(key, found)
        return found

    def _keep(self, key: object, factors: Factors) -> None:
        if self._cached > _MOST_CACHED:
            self._older, self._recent, self._cached = self._recent, {}, 0
        self._cached += len(factors.values) + 10 + (len(key) // 24 if isinstance(key, bytes) else 0)
        self._recent[key] = factors

    def _new(self, given: object) -> Factors:
        if not self.kind.has_names:
            parts = self.kind.feature_entries(self.kind.check(given))
            hashes = hashes_of([part.name for part in parts]) if self._hashed else None
            indices = np.array([part.at for part in parts], np.uint64) if hashes is None else hashes
            # Clipped, so that products of two factors are finite.
            clipped = np.array([part.value for part in parts], np.float64).clip(-LARGEST_NUMBER, LARGEST_NUMBER)
            return Factors(indices, clipped, np.zeros(len(parts), np.int64))
        flat = _flat(given) if self.kind.is_open else None
        if flat is not None:
            spaces, names, values = zip(*flat, strict=True)
            groups = [self._groups.get(space, 0) for space in spaces] if self._groups else [0] * len(spaces)
            return Factors(hashes_of(names), np.array(values), np.array(groups, np.int64))
        return self._read_nested(given)

    def _read_nested(self, given: object) -> Factors:
        hashes, values, spaces, places = self.kind.parts(given)
        groups = np.array([self._groups.get(space, 0) for space, _ in spaces], np.int64)
        return Factors(hashes, values, np.repeat(groups, [count for _, count in spaces]), places)


def _renamed(error: InvalidInputError, path: str) -> InvalidInputError:
    return type(error)(error.detail, (error.field or "context").replace("context", path, 1))


def _flat(given: object) -> list[tuple[str, str, float]] | None:
    """Return the namespace, name and number of each feature, sorted; None unless all are plain, valid and unique.

    Most actions qualify, and this is much faster than `NamedReader`, which reads all other actions and reports errors.
    """
    if type(given) is not dict or not 0 < len(given) <= MOST_FEATURES:
        return None
    found = []
    for path, value in given.items():
        kind = type(value)
        if not 0 < len(path) <= MOST_NAME:
            return None
        if kind is str:
            if len(value) > MOST_TEXT:
                return None
            found.append((path.partition(".")[0], f"{path}={value}", 1.0))
        elif (kind is float or kind is int) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            found.append((path.partition(".")[0], path, float(value)))
        elif kind is bool:
            found.append((path.partition(".")[0], f"{path}=true" if value else f"{path}=false", 1.0))
        else:
            return None
    found.sort()
    return found if len({name for _, name, _ in found}) == len(found) else None


def _key(given: object) -> Any:
    if type(given) is not dict:
        return None
    values = tuple(given.values())
    return tuple(given), values, tuple(map(type, values))  # with the types, because 1 == True

"""Encodes candidates, each an action in its context, as the vectors that docs/actions.md specifies."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.actions.vectors import FeatureSets, joined_vectors
from learners.base import Contexts, IntArray
from service.actions.definition import MOST_INDEX, ActionsDefinition
from service.actions.factors import FactorReader, Factors
from service.contexts.hashing import Hashes, combined, indices_of, signs_of
from service.contexts.kind import BaseFeatures, FeatureEntry
from service.contexts.registry import context_kind
from service.errors import FeaturesError

MOST_ENTRIES = 2_000_000  # maximum features of all candidates of a request, products included: 32 MB of vectors


class NamedFactors(NamedTuple):
    """The features of a context or an action, with their names."""

    names: Sequence[str]
    factors: Factors


class ActionVectors:
    """Encodes the candidates of one model as vectors with `size` possible indices, without the intercept."""

    def __init__(self, actions: ActionsDefinition, features: BaseFeatures) -> None:
        own, sides = actions.features, (features, actions.features)
        named = [side.size for side in sides if context_kind(side).has_names]
        products = actions.interactions != []
        self._plain = 0 if named else own.size  # the number of an action's features; 0 if vectors are hashed
        self.size = max(named) if named else own.size * (1 + features.size * products)
        spaces = [dict.fromkeys(pair[side] for pair in actions.interactions or ()) for side in (0, 1)]
        groups = [{namespace: number for number, namespace in enumerate(each, 1)} for each in spaces]
        self._crossed = np.full((len(groups[0]) + 1, len(groups[1]) + 1), actions.interactions is None)
        for one, other in actions.interactions or ():  # group 0: all namespaces without interactions
            self._crossed[groups[0][one], groups[1][other]] = True
        readers = [FactorReader(context_kind(side), groups[i], bool(named)) for i, side in enumerate(sides)]
        self.contexts, self.actions = readers

    def check_new(self) -> None:
        """Raise `FeaturesError` if the vectors of a new model would be too large."""
        if self.size > MOST_INDEX:
            detail = f"got vectors of {self.size:,} features, products included; must be at most {MOST_INDEX:,}"
            raise FeaturesError(f"{detail}, or set actions.interactions to []", "actions.features.size")

    @property
    def cache_bytes(self) -> int:
        """The approximate memory of the caches of features, in bytes."""
        return self.contexts.cache_bytes + self.actions.cache_bytes

    @cached_property
    def crosses(self) -> bool:
        """Whether any features of contexts and actions are multiplied."""
        return bool(self._crossed.any())

    def entries(self, context: Factors, action: Factors) -> int:
        """Return an upper bound on the entries of a candidate's vector."""
        return len(action.values) * (1 + len(context.values) * self.crosses)

    def join(self, contexts: Sequence[Factors], actions: Sequence[Factors], starts: IntArray) -> Contexts:
        """Return the vectors of m candidates. Context i of n has the actions `starts[i]` … `starts[i + 1] - 1`."""
        given = contexts if self.crosses else [_NOTHING] * len(contexts)
        return joined_vectors(_sets(given), _sets(actions), starts, self._crossed, self.size, self._plain)

    def feature_entries(self, context: NamedFactors, action: NamedFactors) -> list[FeatureEntry]:
        """Return the nonzero features of one candidate. Features with the same index are listed separately."""
        names, hashes, values = list[str](), [np.empty(0, np.uint64)], [np.empty(0)]  # in case there are no features
        for name, hashed, value, group in zip(action.names, *action.factors, strict=True):
            met = np.flatnonzero(self._crossed[context.factors.groups, group])
            names += [name, *[f"{context.names[c]}*{name}" for c in met.tolist()]]
            hashes += [np.array([hashed]), self._product_hashes(context.factors.hashes[met], hashed)]
            values += [np.array([value]), context.factors.values[met] * value]
        joined = np.concatenate(hashes)
        indices = joined.astype(np.int64) if self._plain else indices_of(joined, self.size)
        signs = np.ones(len(joined)) if self._plain else signs_of(joined)
        signed = (signs * np.concatenate(values)).tolist()
        found = map(FeatureEntry, names, indices.tolist(), signed, signs.astype(int).tolist())
        return [part for part in found if part.value]

    def _product_hashes(self, context: Hashes, action: np.uint64) -> Hashes:
        if self._plain:
            return (context + np.uint64(1)) * np.uint64(self._plain) + action
        return combined(context, np.full(len(context), action))


_NOTHING = Factors(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))


def _sets(each: Sequence[Factors]) -> FeatureSets:
    starts = np.zeros(len(each) + 1, np.int64)
    np.cumsum([len(one.values) for one in each], out=starts[1:])
    hashes, values, groups = zip(*each, strict=True)
    return FeatureSets(starts, _joined(hashes, np.uint64), _joined(values, np.float64), _joined(groups, np.int64))


def _joined(arrays: Sequence[Any], dtype: type[Any]) -> npt.NDArray[Any]:
    """Concatenate small arrays into a writable one, faster than numpy."""
    return np.frombuffer(bytearray().join([one.data for one in arrays]), dtype)

"""Encodes candidates, each an action in its context, as the vectors that docs/guides/actions.md specifies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.actions.vectors import FeatureSets, Indexing, joined_vectors
from learners.base import Contexts, FloatArray, IntArray
from service.actions.definition import ActionsDefinition
from service.actions.factors import FactorReader, Factors
from service.contexts.hashing import Hashes, combined, indices_of, signs_of
from service.contexts.kind import BaseFeatures, FeatureEntry
from service.contexts.named import MOST_INDEX, vector_numbers
from service.contexts.registry import context_kind
from service.contexts.vectors import MOST_ENTRIES
from service.errors import FeaturesError
from service.store.records.codecs import ContextCodec, SparseCodec, VectorBlock, VectorCodec

MOST_TOGETHER = 2_000_000  # maximum features of all candidates of a request, products included: 32 MB of vectors


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
        self.hashed = max(named, default=0)  # the number of indices that features and products are hashed to
        # Those of an action's vectors follow them; vectors of the context have only products.
        self.size = self.hashed + vector_numbers(own) if named else own.size * (1 + features.size * products)
        spaces = [dict.fromkeys(pair[side] for pair in actions.interactions or ()) for side in (0, 1)]
        groups = [{namespace: number for number, namespace in enumerate(each, 1)} for each in spaces]
        self._crossed = np.full((len(groups[0]) + 1, len(groups[1]) + 1), actions.interactions is None)
        for one, other in actions.interactions or ():  # group 0: all namespaces without interactions
            self._crossed[groups[0][one], groups[1][other]] = True
        kinds = context_kind(features), context_kind(own)
        self.contexts, self.actions = (FactorReader(kinds[i], groups[i], bool(named)) for i in (0, 1))
        self._in_vectors = [_in_groups(kinds[i].blocks.values(), groups[i]) for i in (0, 1)]

    def check_new(self) -> None:
        """Raise `FeaturesError` if the vectors of a new model would be too large."""
        self._check_products()
        if self.size > MOST_INDEX:
            detail = f"got vectors of {self.size:,} features, products included; must be at most {MOST_INDEX:,}"
            raise FeaturesError(f"{detail}, or set actions.interactions to []", "actions.features.size")

    @property
    def codec(self) -> ContextCodec:
        """Encodes the vectors of candidates."""
        blocks = self.actions.kind.blocks
        return VectorCodec(self.hashed, blocks) if blocks else SparseCodec(self.size)

    @property
    def cache_bytes(self) -> int:
        """The approximate memory of the caches of features, in bytes."""
        return self.contexts.cache_bytes + self.actions.cache_bytes

    def _check_products(self) -> None:
        context, action = self._in_vectors
        total = int(action.sum() + context @ self._crossed @ action)
        if total > MOST_ENTRIES:
            detail = f"got {total:,} numbers in the vectors of an action and their products with the context's"
            raise FeaturesError(f"{detail}; must be at most {MOST_ENTRIES:,}", "actions.interactions")

    def entries(self, context: Factors, actions: Sequence[Factors]) -> IntArray:
        """Return the number of entries of the vector of each action, (m,), or more if features share an index."""
        added = 1 + np.bincount(context.groups, minlength=len(self._crossed)) @ self._crossed  # by a feature of a group
        ends = np.cumsum([0, *(len(each.values) for each in actions)])
        of_features = added[np.concatenate([each.groups for each in actions])]
        return np.asarray(np.diff(np.concatenate([[0], np.cumsum(of_features)])[ends]), np.int64)

    def join(self, contexts: Sequence[Factors], actions: Sequence[Factors], starts: IntArray) -> Contexts:
        """Return the vectors of m candidates. Context i of n has the actions `starts[i]` … `starts[i + 1] - 1`."""
        given = contexts if self._crossed.any() else [_NOTHING] * len(contexts)
        places = np.concatenate([each.places for each in actions])
        places[places >= 0] += self.hashed
        indexing = Indexing(self._crossed, self.hashed or self.size, self._plain, places)
        return joined_vectors(_sets(given), _sets(actions), starts, indexing)

    def feature_entries(self, context: NamedFactors, action: NamedFactors) -> list[FeatureEntry]:
        """Return the nonzero features of one candidate. Features with the same index are listed separately."""
        names, hashes, values = list[str](), [np.empty(0, np.uint64)], [np.empty(0)]  # in case there are no features
        places = [np.empty(0, np.int64)]
        own_places = action.factors.places if len(action.factors.places) else np.full(len(action.names), -1)
        for name, hashed, value, group, place in zip(action.names, *action.factors[:3], own_places, strict=True):
            met = np.flatnonzero(self._crossed[context.factors.groups, group])
            names += [name, *[f"{context.names[c]}*{name}" for c in met.tolist()]]
            hashes += [np.array([hashed]), self._product_hashes(context.factors.hashes[met], hashed)]
            values += [np.array([value]), context.factors.values[met] * value]
            places += [np.array([place]), np.full(len(met), -1)]
        indices, signs = self._places(np.concatenate(hashes), np.concatenate(places))
        signed = (signs * np.concatenate(values)).tolist()
        found = map(FeatureEntry, names, indices.tolist(), signed, signs.astype(int).tolist())
        return [part for part in found if part.value]

    def _places(self, hashes: Hashes, places: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the index and the sign of features with these hashes and places, -1 for none."""
        if self._plain:
            return hashes.astype(np.int64), np.ones(len(hashes))
        placed = places >= 0
        return np.where(placed, places + self.hashed, indices_of(hashes, self.hashed)), np.where(
            placed, 1.0, signs_of(hashes)
        )

    def _product_hashes(self, context: Hashes, action: np.uint64) -> Hashes:
        if self._plain:
            return (context + np.uint64(1)) * np.uint64(self._plain) + action
        return combined(context, np.full(len(context), action))


_NOTHING = Factors(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))


def _in_groups(blocks: Iterable[VectorBlock], groups: Mapping[str, int]) -> IntArray:
    """Return how many numbers the vectors of each group of namespaces have, (G,)."""
    counts = np.zeros(len(groups) + 1, np.int64)
    for block in blocks:
        counts[groups.get(block.path.partition(".")[0], 0)] += block.size
    return counts


def _sets(each: Sequence[Factors]) -> FeatureSets:
    starts = np.zeros(len(each) + 1, np.int64)
    np.cumsum([len(one.values) for one in each], out=starts[1:])
    hashes, values, groups, _ = zip(*each, strict=True)
    return FeatureSets(starts, _joined(hashes, np.uint64), _joined(values, np.float64), _joined(groups, np.int64))


def _joined(arrays: Sequence[Any], dtype: type[Any]) -> npt.NDArray[Any]:
    """Concatenate small arrays into a writable one, faster than numpy."""
    return np.frombuffer(bytearray().join([one.data for one in arrays]), dtype)

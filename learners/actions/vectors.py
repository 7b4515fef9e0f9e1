"""Vectors of candidates: the features of each action, and their products with the features of the context.

`docs/guides/actions.md` specifies the indices and the signs. They must never change, as stored weights depend on them.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from learners.kernels import compiled

Hashes = npt.NDArray[np.uint64]

_STEP, _MULTIPLIER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT, _SIGN_SHIFT, _INDEX_BITS = np.uint64(32), np.uint64(63), np.uint64(2**63 - 1)
_NO_PLACES = np.empty(0, np.int64)


class FeatureSets(NamedTuple):
    """The features of n contexts or actions; set i has the entries `starts[i]` … `starts[i + 1] - 1`."""

    starts: IntArray  # (n + 1,) int64
    hashes: Hashes  # (nnz,), one per feature; the features' indices if vectors are not hashed
    values: FloatArray  # (nnz,)
    groups: IntArray  # (nnz,) int64, each feature's group: a row of `crossed` for contexts, a column for actions


class Indexing(NamedTuple):
    """How features and products of features get their indices in the vectors of candidates.

    If `plain` is 0, vectors are hashed. Otherwise, `plain` is the number of features of an action: feature a has the
    index a, and its product with feature c of the context has the index (c + 1) · plain + a.
    """

    crossed: BoolArray  # (G, H), whether features of context group g and action group h are multiplied
    size: int  # every index of a feature without a place is below it
    plain: int
    places: IntArray = _NO_PLACES
    """(nnz,), the index of each feature of the actions, at least `size` and in no other feature of its action; -1 for
    those without a place. (0,) if all are without."""


def joined_vectors(contexts: FeatureSets, actions: FeatureSets, starts: IntArray, indexing: Indexing) -> Contexts:
    """Return the vectors of m candidates, without features whose value is 0. Values at the same index are added up.

    Context i has the actions `starts[i]` … `starts[i + 1] - 1`. Features with a place follow the others, in order, even
    if they are 0.
    """
    each = np.zeros(len(actions.starts) - 1, np.int64)
    _count(contexts, actions, starts, indexing.crossed, each)
    room, most = int(each.sum()), int(each.max(initial=1))
    result = Contexts(np.zeros(len(each) + 1, np.int64), np.empty(room, np.int64), np.empty(room), False)
    slots = np.zeros((1 << (2 * most - 1).bit_length(), 2), np.int64)
    end = _join(contexts, actions, starts, indexing, slots, result)
    return result._replace(indices=result.indices[:end], values=result.values[:end])


@compiled
def _count(
    contexts: FeatureSets, actions: FeatureSets, starts: IntArray, crossed: BoolArray, entries: IntArray
) -> None:
    """Write the number of features of each candidate, products included."""
    for i in range(len(starts) - 1):
        each = np.ones(crossed.shape[1], np.int64)  # what a feature of each group adds: itself, and its products
        for c in range(contexts.starts[i], contexts.starts[i + 1]):
            each += crossed[contexts.groups[c]]
        for j in range(starts[i], starts[i + 1]):
            for a in range(actions.starts[j], actions.starts[j + 1]):
                entries[j] += each[actions.groups[a]]


@compiled
def _join(
    contexts: FeatureSets, actions: FeatureSets, starts: IntArray, indexing: Indexing, slots: IntArray, result: Contexts
) -> int:
    """Write the vectors; return the number of entries. `slots` is a hash table of the current candidate's indices."""
    crossed, size, plain, places = indexing
    end = 0
    for i in range(len(starts) - 1):
        for j in range(starts[i], starts[i + 1]):
            for a in range(actions.starts[j], actions.starts[j + 1]):
                hashed, x, group = actions.hashes[a], actions.values[a], actions.groups[a]
                if len(places) == 0 or places[a] < 0:
                    end = _add(hashed, x, size, plain > 0, j, slots, result, end)
                for c in range(contexts.starts[i], contexts.starts[i + 1]):
                    if crossed[contexts.groups[c], group]:
                        product = _product(contexts.hashes[c], hashed, np.uint64(plain))
                        end = _add(product, contexts.values[c] * x, size, plain > 0, j, slots, result, end)
            if len(places) > 0:
                end = _add_placed(actions, places, j, result, end)
            result.starts[j + 1] = end
    return end


@compiled
def _add_placed(actions: FeatureSets, places: IntArray, j: int, result: Contexts, end: int) -> int:
    for a in range(actions.starts[j], actions.starts[j + 1]):
        if places[a] >= 0:
            result.indices[end], result.values[end] = places[a], actions.values[a]
            end += 1
    return end


@compiled
def _product(first: np.uint64, second: np.uint64, plain: np.uint64) -> np.uint64:
    """Return the hash of a product of two features, or the product's index if vectors are not hashed."""
    return np.uint64((first + np.uint64(1)) * plain + second) if plain > 0 else product_hash(first, second)


@compiled
def product_hash(first: np.uint64, second: np.uint64) -> np.uint64:
    """Return the hash of a product of two features, given the hashes of its factors."""
    mixed = first * _STEP + second
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    return np.uint64(mixed ^ (mixed >> _SHIFT))


@compiled
def _add(
    hashed: np.uint64, value: float, size: int, plain: bool, j: int, slots: IntArray, result: Contexts, end: int
) -> int:
    """Add a feature to vector j, the last vector so far. Return the new number of entries of all vectors together."""
    if value == 0.0:
        return end
    if plain:
        index = np.int64(hashed)
    elif size & (size - 1) == 0:  # faster than a division
        index = np.int64(hashed & np.uint64(size - 1))
    else:
        index = np.int64((hashed & _INDEX_BITS) % np.uint64(size))
    if not plain and hashed >> _SIGN_SHIFT > 0:
        value = -value
    mask = len(slots) - 1
    at = np.int64(index & mask)
    while slots[at, 0] == j + 1:  # rows left by other candidates count as empty
        position = slots[at, 1]
        if result.indices[position] == index:
            result.values[position] += value
            return end
        at = np.int64((at + 1) & mask)
    slots[at, 0], slots[at, 1] = j + 1, end
    result.indices[end], result.values[end] = index, value
    return end + 1

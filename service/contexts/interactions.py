"""Interactions: the products of the features of two namespaces, or of one with itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from learners.base import FloatArray, IntArray
from service.contexts.hashing import Hashes, combined, hashes_of
from service.contexts.named_reader import Found
from service.contexts.vectors import number_hashes, number_names
from service.store.records.codecs import VectorBlock


class Interactions:
    """The interactions of a model's features.

    Args:
        pairs: two namespaces each.
        blocks: the place of each vector, by path.
    """

    def __init__(self, pairs: Sequence[Sequence[str]], blocks: Mapping[str, VectorBlock]) -> None:
        self.pairs, self._blocks = [(one, other) for one, other in pairs], blocks

    def total(self, lengths: Mapping[str, int]) -> int:
        """Return the number of features, products included, from the number of features of each namespace."""
        pairs = [(lengths.get(one, 0), lengths.get(other, 0), one == other) for one, other in self.pairs]
        return sum(lengths.values()) + sum(n * (n - 1) // 2 if same else n * m for n, m, same in pairs)

    def products(self, found: Found) -> Iterator[tuple[Hashes, FloatArray]]:
        """Yield the hashes and the values of each interaction's products, if it has any."""
        for one, other in self._met(found):
            (first, numbers), (second, others) = self._side(found, one), self._side(found, other)
            rows, columns = _multiplied(len(first), len(second), one == other)
            if len(rows):
                yield combined(first[rows], second[columns]), numbers[rows] * others[columns]

    def product_names(self, found: Found) -> Iterator[str]:
        """Yield the name of each product, in the order of `products`."""
        for one, other in self._met(found):
            first, second = self._names(found, one), self._names(found, other)
            rows, columns = _multiplied(len(first), len(second), one == other)
            yield from (f"{first[i]}*{second[j]}" for i, j in zip(rows.tolist(), columns.tolist(), strict=True))

    def hashes_of_vectors(self, paths: Iterable[str]) -> list[Hashes]:
        """Return the hashes of the numbers of each vector, from which those of products are computed."""
        return [self._number_hashes[path] for path in paths]

    @cached_property
    def _number_hashes(self) -> dict[str, Hashes]:
        return {path: number_hashes(block) for path, block in self._blocks.items()}

    def _met(self, found: Found) -> list[tuple[str, str]]:
        """Return the interactions of which both namespaces are there."""
        there = {*found.spaces, *map(namespace_of, found.vectors)}
        return [pair for pair in self.pairs if there.issuperset(pair)]

    def _side(self, found: Found, space: str) -> tuple[Hashes, FloatArray]:
        """Return the hash and the number of each feature of a namespace, by name, and of its vectors."""
        names, vectors = found.spaces.get(space, {}), _vectors_of(found, space)
        ordered = sorted(names)
        numbers = np.array([names[name] for name in ordered], np.float64)
        return np.concatenate([hashes_of(ordered), *self.hashes_of_vectors(vectors)]), np.concatenate(
            [numbers, *vectors.values()]
        )

    def _names(self, found: Found, space: str) -> list[str]:
        names = sorted(found.spaces.get(space, ()))
        return [*names, *chain.from_iterable(number_names(self._blocks[path]) for path in _vectors_of(found, space))]


def namespace_of(path: str) -> str:
    """Return the namespace of a feature."""
    return path.partition(".")[0]


def added_up(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the sum of the counts of each namespace."""
    lengths = dict[str, int]()
    for space, count in counts:
        lengths[space] = lengths.get(space, 0) + count
    return lengths


def _vectors_of(found: Found, space: str) -> dict[str, FloatArray]:
    return {path: numbers for path, numbers in found.vectors.items() if namespace_of(path) == space}


def _multiplied(n: int, m: int, same: bool) -> tuple[IntArray, IntArray]:
    """Return the positions of the factors of each product of n and m features; of n with themselves if `same`."""
    return np.triu_indices(n, 1) if same else np.divmod(np.arange(n * m), max(1, m))

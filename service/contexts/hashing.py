"""The hash of a named feature: its index and sign. docs/guides/contexts.md specifies it; never change it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_intdigest

from learners.base import FloatArray, IntArray

HALF = 2**63  # a hash of at least this number has the sign -1

_STEP, _MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
_INDEX_BITS, _SIGN_SHIFT = np.uint64(HALF - 1), np.uint64(63)

Hashes = npt.NDArray[np.uint64]


def hash_of(name: str) -> int:
    """Return the XXH64 hash of a feature's name in UTF-8, with seed 0."""
    return xxh64_intdigest(name.encode())


def hashes_of(names: Sequence[str]) -> Hashes:
    """Return the hash of each name."""
    return np.array([hash_of(name) for name in names], np.uint64)


def combined(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of products: the i-th is of the product of the features with hashes first[i] and second[i]."""
    mixed: Hashes = first * _STEP + second
    for _ in range(2):
        mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    return mixed ^ (mixed >> _SHIFT)


def indices_of(hashes: Hashes, size: int) -> IntArray:
    """Return the index of each hash, from 0 to size - 1: its lower 63 bits modulo the size."""
    return ((hashes & _INDEX_BITS) % np.uint64(size)).astype(np.int64)


def signs_of(hashes: Hashes) -> FloatArray:
    """Return the sign of each hash: -1 if its highest bit is set, else 1."""
    signs: FloatArray = 1.0 - 2.0 * (hashes >> _SIGN_SHIFT).astype(np.float64)
    return signs

"""Kernels do not depend on where their arrays are in memory."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.mathematics import exploration, linear_algebra
from learners.mathematics.losses import surrogate
from tests.learners.arrays import assert_close, bits, pack

SIZES = [(2, 1), (2, 2), (3, 4), (5, 3), (4, 17), (9, 8), (17, 2), (33, 5)]  # K, d
EACH_SIZE = pytest.mark.parametrize(("K", "d"), SIZES)
TOLERANCE = 1e-12


class Arrays(NamedTuple):
    weights: Any  # (d, K)
    values: Any  # (d,)
    indices: Any  # (d,)
    scores: Any  # (K,)
    result: Any  # (K,)


def placements(arrays: Arrays) -> Iterator[Arrays]:
    memory = np.zeros(sum(a.size for a in arrays) + 50)
    for order in permutations(range(len(arrays))):
        for gap in (0, 1, 8):
            for start in (0, 1):
                placed, at = list(arrays), start
                for i in order:
                    place = memory[at : at + arrays[i].size].view(arrays[i].dtype).reshape(arrays[i].shape)
                    place[...], placed[i], at = arrays[i], place, at + arrays[i].size + gap
                yield Arrays(*placed)


KERNELS: dict[str, Callable[[Arrays], float | None]] = {
    "softmax": lambda a: exploration.softmax(a.scores, a.result),
    "logistic": lambda a: surrogate(0, a.scores, 1, a.result),
    "hinge": lambda a: surrogate(1, a.scores, 1, a.result),
    "smooth_hinge": lambda a: surrogate(2, a.scores, 1, a.result),
    "score": lambda a: linear_algebra.score(a.weights, a.indices, a.values, a.result),
    "add_outer": lambda a: linear_algebra.add_outer(a.weights, a.scores, a.indices, a.values),
    "packed_rank_one": lambda a: linear_algebra.packed_rank_one(a.weights.ravel(), a.scores, 0.3),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("K", [2, 4, 5, 8, 9, 16, 20])
def test_kernels_do_not_depend_on_memory_placement(kernel: str, K: int) -> None:
    rng, d = np.random.default_rng(K), 1 + (K + 1) // 2
    for _ in range(3):
        arrays = Arrays(rng.normal(size=(d, K)), rng.normal(size=d), np.arange(d), rng.normal(size=K), np.zeros(K))
        seen = set()
        for placed in placements(arrays):
            returned = KERNELS[kernel](placed)
            seen.add((*bits(placed), returned))
        assert len(seen) == 1


def symmetric(rng: np.random.Generator, n: int) -> Any:
    """Draw a random symmetric matrix."""
    square = rng.normal(size=(n, n))
    return square + square.T


@EACH_SIZE
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_packed_products_with_two_blocks(K: int, d: int, sign: float) -> None:
    """A u and u'A u match the dense products, for u = ±x in one block and ∓x in a later one, for several pairs."""
    rng, n = np.random.default_rng(4), K * d
    square, x = symmetric(rng, n), rng.normal(size=d)
    packed, result = pack(square), np.full(n, np.nan)
    for low, high in [(0, 1), (0, K - 1), (K - 2, K - 1), (K // 2 - 1, K // 2)]:
        u = sign * np.kron(np.eye(K)[low] - np.eye(K)[high], x)
        linear_algebra.packed_times_blocks(packed, x, low, high, sign, result)
        assert_close(result, square @ u, 1e-11)
        assert_close(linear_algebra.packed_blocks_quadratic(packed, x, low, high), u @ square @ u, 1e-11)
        some = rng.permutation(d)[: 1 + d // 2]
        u *= np.tile(np.isin(np.arange(d), some), K)
        form = linear_algebra.packed_sparse_blocks_quadratic(packed, d, some, x[some], low, high)
        assert_close(form, u @ square @ u, 1e-11)

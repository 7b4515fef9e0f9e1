"""Products and packed triangles match dense numpy, and kernels do not depend on memory placement."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import Contexts
from learners.mathematics import exploration, linear_algebra
from learners.mathematics.losses import surrogate
from tests.learners.arrays import as_sparse, assert_close, bits, pack, unpacked

SIZES = [(2, 1), (2, 2), (3, 4), (5, 3), (4, 17), (9, 8), (17, 2), (33, 5)]  # K, d
EACH_SIZE = pytest.mark.parametrize(("K", "d"), SIZES)
TOLERANCE = 1e-12


def symmetric(rng: np.random.Generator, n: int) -> Any:
    """Draw a random symmetric matrix."""
    square = rng.normal(size=(n, n))
    return square + square.T


@EACH_SIZE
def test_scores_are_the_matrix_product(K: int, d: int) -> None:
    """Scores are x W, for dense and sparse contexts, one or many."""
    rng = np.random.default_rng(1)
    weights, x = rng.normal(size=(d, K)), rng.normal(size=(7, d)) * (rng.random((7, d)) < 0.6)
    for contexts in (Contexts.dense(x), as_sparse(Contexts.dense(x))):
        assert_close(linear_algebra.scores(weights, contexts), x @ weights, TOLERANCE)
    one = np.ones(K)
    linear_algebra.score(weights, np.arange(d), x[0], one)
    assert_close(one, 1.0 + x[0] @ weights, TOLERANCE)


@EACH_SIZE
def test_add_outer_returns_the_change_of_the_squared_norm(K: int, d: int) -> None:
    """Adding x ⊗ c changes only the features present, and the return value is the change of the squared norm."""
    rng = np.random.default_rng(2)
    weights, c = rng.normal(size=(d, K)), rng.normal(size=K)
    indices = np.flatnonzero(rng.random(d) < 0.7)
    x = rng.normal(size=len(indices))
    expected = weights.copy()
    expected[indices] += np.outer(x, c)
    before = linear_algebra.squared_norm(weights.ravel())
    change = linear_algebra.add_outer(weights, c, indices, x)
    assert_close(weights, expected, TOLERANCE)
    assert_close(before + change, np.sum(expected**2), TOLERANCE)
    assert_close(linear_algebra.squared_norm(weights.ravel()), np.sum(expected**2), TOLERANCE)


@EACH_SIZE
def test_add_to_label_changes_only_that_label(K: int, d: int) -> None:
    """Adding f x to one label's weights changes only its column, at the features present."""
    rng = np.random.default_rng(7)
    weights, indices = rng.normal(size=(d, K)), rng.permutation(np.flatnonzero(rng.random(d) < 0.7))
    x, expected = rng.normal(size=len(indices)), weights.copy()
    expected[indices, K - 1] -= 0.3 * x
    linear_algebra.add_to_label(weights, K - 1, -0.3, indices, x)
    assert_close(weights, expected, TOLERANCE)


@EACH_SIZE
def test_packed_identity_and_rank_one(K: int, d: int) -> None:
    """a·I and A + f vv' in packed form match the dense matrices."""
    rng, n = np.random.default_rng(3), K * d
    packed, v = np.zeros(n * (n + 1) // 2), rng.normal(size=n)
    linear_algebra.packed_identity(packed, 0.3, n)
    assert_close(unpacked(packed), 0.3 * np.eye(n), 0.0)
    linear_algebra.packed_rank_one(packed, v, -0.7)
    assert_close(unpacked(packed), 0.3 * np.eye(n) - 0.7 * np.outer(v, v), TOLERANCE)


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


@EACH_SIZE
def test_packed_solves(K: int, d: int) -> None:
    """L⁻¹v and L'⁻¹v match the dense solution, also for the first rows of a longer triangle."""
    rng, n = np.random.default_rng(5), K * d
    L = np.tril(rng.normal(size=(n, n))) / n + np.eye(n)
    factor = np.ascontiguousarray(L[np.tril_indices(n)])
    for size in (n, n // 2):
        for solve, triangle in ((linear_algebra.packed_solve_lower, L), (linear_algebra.packed_solve_upper, L.T)):
            v = rng.normal(size=size)
            expected = np.linalg.solve(triangle[:size, :size], v)
            solve(factor, v)
            assert_close(v, expected, 1e-11)


# --- memory placement


class Arrays(NamedTuple):
    """The inputs and outputs of the kernels."""

    weights: Any  # (d, K)
    values: Any  # (d,)
    indices: Any  # (d,)
    scores: Any  # (K,)
    result: Any  # (K,)


def placements(arrays: Arrays) -> Iterator[Arrays]:
    """Yield the same arrays in one buffer, in every order, with several gaps, aligned and unaligned."""
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
    """A kernel gives the same bits wherever its arrays are in memory, so workers agree and replays repeat."""
    rng, d = np.random.default_rng(K), 1 + (K + 1) // 2
    for _ in range(3):
        arrays = Arrays(rng.normal(size=(d, K)), rng.normal(size=d), np.arange(d), rng.normal(size=K), np.zeros(K))
        seen = set()
        for placed in placements(arrays):
            returned = KERNELS[kernel](placed)
            seen.add((*bits(placed), returned))
        assert len(seen) == 1

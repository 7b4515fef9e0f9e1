"""Helpers for contexts and states as arrays: build, copy, unpack, compare."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.algorithms.first_order.bandit_perceptrons_features import expand
from learners.algorithms.second_order.soba import SobaState
from learners.algorithms.second_order.soba_low_rank import SobaLowRankState
from learners.base import BoolArray, Contexts, FloatArray, IntArray


def same_rows(one: IntArray, other: IntArray) -> BoolArray:
    """Return where two columns of answers, (n,) or (n, K), agree: (n,)."""
    return np.asarray((one == other).all(axis=tuple(range(1, one.ndim))))


def unit_rows(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    """Draw random unit vectors (n, d)."""
    rows = rng.normal(size=(n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def matrix(contexts: Contexts) -> FloatArray:
    """Return dense contexts as rows (n, d)."""
    return contexts.values.reshape(contexts.n, len(contexts.indices))


def as_sparse(contexts: Contexts) -> Contexts:
    rows = matrix(contexts)
    kept = rows != 0.0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
    return Contexts(starts, np.nonzero(kept)[1].astype(np.int64), rows[kept], False)


def copied(state: Any) -> Any:
    return type(state)(*(field.copy() for field in state))


def in_order(state: Any) -> Any:
    if not hasattr(state, "indices"):
        return state
    rows = np.searchsorted(state.ends[: int(state.stored)], np.arange(len(state.indices)), side="right")
    order = np.lexsort((state.indices, rows))
    return state._replace(indices=state.indices[order], values=state.values[order])


def bits(arrays: Sequence[Any]) -> list[bytes]:
    return [b"".join(bits(a)) if isinstance(a, tuple) else np.asarray(a).tobytes() for a in arrays]


def is_finite(state: Any) -> bool:
    return all(bool(np.isfinite(field).all()) for field in state)


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    if isinstance(actual, tuple):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, tolerance)
    else:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def monomials(x: FloatArray, degree: int) -> FloatArray:
    """Return the feature map of each context, (n, C(d + degree, degree))."""
    roots = 1.0 / np.sqrt(np.maximum(1.0, np.arange(degree + 1)))
    size = math.comb(x.shape[1] + degree, degree)
    result, exponents = np.empty((len(x), size)), np.empty(size, np.int64)
    for i, one in enumerate(x):
        expand(one, roots, exponents, result[i])
    return result


def unpacked(packed: FloatArray) -> FloatArray:
    n = int(np.sqrt(2 * len(packed)))
    square = np.zeros((n, n))
    square[np.tril_indices(n)] = packed
    return square + np.tril(square, -1).T


def accepted_rows(state: SobaLowRankState) -> FloatArray:
    """Return Z (U, K·d), the updates that low-rank SOBA stores, as the rows of a matrix."""
    d, K = state.weights.shape
    Z, start = np.zeros((int(state.stored), K, d)), 0
    for z, (rival, y), end in zip(Z, state.pairs, state.ends, strict=False):
        z[rival, state.indices[start:end]] = state.values[start:end]
        z[y, state.indices[start:end]] = -state.values[start:end]
        start = end
    return Z.reshape(len(Z), K * d)


def soba_inverse(state: SobaState | SobaLowRankState, a: float) -> FloatArray:
    """Return A⁻¹ (K·d, K·d) of SOBA or low-rank SOBA, where A starts as a·I."""
    if isinstance(state, SobaState):
        return unpacked(state.inverse)
    Z, L = accepted_rows(state), np.zeros((int(state.stored),) * 2)
    L[np.tril_indices(len(L))] = state.factor[: len(L) * (len(L) + 1) // 2]
    return np.asarray((np.eye(Z.shape[1]) - Z.T @ np.linalg.solve(L @ L.T, Z)) / a)


def pack(square: FloatArray) -> FloatArray:
    return np.ascontiguousarray(square[np.tril_indices(len(square))])

"""Norm policies and intercepts: the bound holds for any incoming contexts."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners.base import Contexts, FloatArray, NormPolicy
from learners.mathematics.preparation import Preparation, prepare, within_bound
from tests.learners.worlds import LAWS

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MAGNITUDES = FINITE | st.sampled_from([0.0, -0.0, 5e-324, 1e-320, -1e-310, 1e-160, 1.0, 1e160, 1e200, 1e308, -1.7e308])
MATRICES = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=MAGNITUDES)
BOUNDS = st.floats(1e-6, 1e6)


def bounded(matrix: FloatArray, policy: NormPolicy, bound: float) -> FloatArray:
    return within_bound(Contexts.dense(matrix), policy, bound).values.reshape(matrix.shape)


def norms(rows: FloatArray) -> list[float]:
    return [math.hypot(*row) for row in rows]


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["unit", "scale"]))
def test_policies_bring_rows_within_the_bound(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    before = matrix.tobytes()
    result = bounded(matrix, policy, bound)
    assert result.shape == matrix.shape
    assert max(norms(result)) <= bound * (1 + 1e-12)
    assert matrix.tobytes() == before


@LAWS
@given(MATRICES, BOUNDS)
def test_scale_changes_only_rows_over_the_bound(matrix: FloatArray, bound: float) -> None:
    result = bounded(matrix, "scale", bound)
    for row, before, after in zip(matrix, norms(matrix), result, strict=True):
        if before <= bound * (1 - 1e-12):
            assert after.tobytes() == row.tobytes()
        elif before > bound * (1 + 1e-12):
            assert math.hypot(*after) == pytest.approx(bound, rel=1e-12)


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["unit", "scale"]))
def test_policies_keep_the_direction(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    for row, result in zip(matrix, bounded(matrix, policy, bound), strict=True):
        largest = np.abs(row).argmax()
        if row[largest]:
            np.testing.assert_allclose(result / result[largest], row / row[largest], rtol=1e-9, atol=1e-300)


@LAWS
@given(MATRICES, BOUNDS)
def test_none_changes_only_extreme_numbers(matrix: FloatArray, bound: float) -> None:
    assert bounded(matrix, "none", bound).tobytes() == np.clip(matrix, -1e18, 1e18).tobytes()


POLICIES: list[NormPolicy] = ["none", "scale", "unit", "reject"]
every_policy = st.sampled_from(POLICIES)


def with_intercept(matrix: FloatArray, policy: NormPolicy, bound: float) -> FloatArray:
    """Prepare the rows of a matrix (n, d) with an intercept; return them, (n, d + 1)."""
    n, d = matrix.shape
    prepared = prepare(Contexts.dense(matrix), Preparation(policy, bound, True, d))
    assert prepared.indices.tolist() == list(range(d + 1))
    assert prepared.starts.tolist() == [(d + 1) * i for i in range(n + 1)]
    return prepared.values.reshape(n, d + 1)


@LAWS
@given(MATRICES, BOUNDS, every_policy)
def test_the_constant_is_one_more_feature(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    rows = with_intercept(matrix, policy, bound)
    assert set(rows[:, -1]) == {1.0 if policy == "none" else bound / 2}
    expected = np.clip(matrix, -1e18, 1e18) if policy == "reject" else bounded(matrix, policy, math.sqrt(0.75) * bound)
    assert rows[:, :-1].tobytes() == expected.tobytes()


@LAWS
@given(MATRICES, BOUNDS, every_policy, st.booleans())
def test_sparse_contexts_are_prepared_like_dense_ones(
    matrix: FloatArray, bound: float, policy: NormPolicy, intercept: bool
) -> None:
    kept, d = matrix != 0, matrix.shape[1]
    sparse = Contexts.sparse(kept.sum(axis=1), np.nonzero(kept)[1], matrix[kept])
    preparation = Preparation(policy, bound, intercept, d)
    prepared, dense = prepare(sparse, preparation), prepare(Contexts.dense(matrix), preparation)
    rows = np.zeros((len(matrix), d + intercept))
    for i, row in enumerate(rows):
        part = prepared.rows(i, i + 1)
        assert len(set(part.indices.tolist())) == len(part.indices)
        row[part.indices] = part.values
    np.testing.assert_allclose(rows.ravel(), dense.values, rtol=1e-14)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_is_prepared_like_its_rows(policy: NormPolicy) -> None:
    matrix = np.random.default_rng(4).normal(size=(5, 4)) * 2.0
    alone = [with_intercept(row[np.newaxis], policy, 1.0) for row in matrix]
    assert with_intercept(matrix, policy, 1.0).tobytes() == np.concatenate(alone).tobytes()
    assert with_intercept(np.empty((0, 2)), policy, 1.0).shape == (0, 3)
    assert with_intercept(np.empty((3, 0)), policy, 2.0).shape == (3, 1)


def test_the_memory_of_a_sparse_context_does_not_grow_with_the_features() -> None:
    context = Contexts.sparse(np.array([2]), np.array([0, 2**31 - 2]), np.array([1.0, 2.0]))
    for policy in POLICIES:
        prepare(context, Preparation(policy, 1.0, True, 2**31 - 1))  # compiled before the measurement
        tracemalloc.start()
        try:
            prepared = prepare(context, Preparation(policy, 1.0, True, 2**31 - 1))
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()
        assert prepared.indices.tolist() == [0, 2**31 - 2, 2**31 - 1]

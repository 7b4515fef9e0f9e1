"""The laws of contexts with an intercept: the constant and the context share the bound, and nothing is stretched."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.base import Contexts, FloatArray, NormPolicy
from learners.mathematics.preparation import Preparation, prepare
from tests.learners.mathematics.test_norms import BOUNDS, MATRICES, bounded, norms
from tests.learners.worlds import LAWS

POLICIES: list[NormPolicy] = ["none", "scale", "unit", "reject"]
every_policy = st.sampled_from(POLICIES)
ROOT = math.sqrt(3) / 2


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
    """The last feature is 1 without a policy and X/2 with one; the others are those of a smaller bound."""
    rows = with_intercept(matrix, policy, bound)
    assert set(rows[:, -1]) == {1.0 if policy == "none" else bound / 2}
    expected = (
        np.clip(matrix, -1e100, 1e100) if policy == "reject" else bounded(matrix, policy, math.sqrt(0.75) * bound)
    )
    assert rows[:, :-1].tobytes() == expected.tobytes()


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["scale", "unit"]))
def test_context_and_constant_stay_within_the_bound(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    """No prepared context is longer than X, and the context itself is not changed."""
    before = matrix.tobytes()
    assert max(norms(with_intercept(matrix, policy, bound))) <= bound * (1 + 1e-12)
    assert matrix.tobytes() == before


@LAWS
@given(MATRICES, BOUNDS)
def test_scale_never_stretches(matrix: FloatArray, bound: float) -> None:
    """`scale`: what is shorter than 0.866 X keeps its bits."""
    rows = with_intercept(matrix, "scale", bound)[:, :-1]
    short = np.array(norms(matrix)) <= ROOT * bound * (1 - 1e-12)
    assert rows[short].tobytes() == matrix[short].tobytes()


@LAWS
@given(MATRICES, BOUNDS, every_policy, st.booleans())
def test_sparse_contexts_are_prepared_like_dense_ones(
    matrix: FloatArray, bound: float, policy: NormPolicy, intercept: bool
) -> None:
    """Without their zeros, contexts have the same numbers; the constant has index d."""
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
    """Each context has the same bits alone, in a batch, and where there is nothing but the constant."""
    matrix = np.random.default_rng(4).normal(size=(5, 4)) * 2.0
    alone = [with_intercept(row[np.newaxis], policy, 1.0) for row in matrix]
    assert with_intercept(matrix, policy, 1.0).tobytes() == np.concatenate(alone).tobytes()
    assert with_intercept(np.empty((0, 2)), policy, 1.0).shape == (0, 3)
    assert with_intercept(np.empty((3, 0)), policy, 2.0).shape == (3, 1)


def test_the_memory_of_a_sparse_context_does_not_grow_with_the_features() -> None:
    """Of two thousand million possible features, a context with two takes no more memory than its own numbers."""
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

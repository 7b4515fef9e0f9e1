"""Norm policies: every theorem assumes a norm bound, and it holds for any incoming contexts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners.base import Contexts, FloatArray, NormPolicy
from learners.mathematics.norms import within_bound
from tests.learners.worlds import LAWS

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MAGNITUDES = FINITE | st.sampled_from([0.0, -0.0, 5e-324, 1e-320, -1e-310, 1e-160, 1.0, 1e160, 1e200, 1e308, -1.7e308])
MATRICES = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=MAGNITUDES)
BOUNDS = st.floats(1e-6, 1e6)


def bounded(matrix: FloatArray, policy: NormPolicy, bound: float) -> FloatArray:
    """Apply a policy to the rows of a matrix."""
    return within_bound(Contexts.dense(matrix), policy, bound).values.reshape(matrix.shape)


def norms(rows: FloatArray) -> list[float]:
    """Return Euclidean norms without intermediate overflow or underflow; infinite where they exceed a float."""
    return [math.hypot(*row) for row in rows]


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["unit", "scale"]))
def test_policies_bring_rows_within_the_bound(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    """No resulting row is longer than X, and the input does not change."""
    before = matrix.tobytes()
    result = bounded(matrix, policy, bound)
    assert result.shape == matrix.shape
    assert max(norms(result)) <= bound * (1 + 1e-12)
    assert matrix.tobytes() == before


@LAWS
@given(MATRICES, BOUNDS)
def test_unit_gives_rows_the_norm_x(matrix: FloatArray, bound: float) -> None:
    """`unit`: every row gets norm X, down to the smallest floats; zero rows stay zero."""
    for norm, row in zip(norms(bounded(matrix, "unit", bound)), matrix, strict=True):
        assert norm == (pytest.approx(bound, rel=1e-12) if row.any() else 0.0)


@LAWS
@given(MATRICES, BOUNDS)
def test_scale_changes_only_rows_over_the_bound(matrix: FloatArray, bound: float) -> None:
    """`scale`: rows within the bound keep their bits, the others get norm X."""
    result = bounded(matrix, "scale", bound)
    for row, before, after in zip(matrix, norms(matrix), result, strict=True):
        if before <= bound * (1 - 1e-12):
            assert after.tobytes() == row.tobytes()
        elif before > bound * (1 + 1e-12):
            assert math.hypot(*after) == pytest.approx(bound, rel=1e-12)


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["unit", "scale"]))
def test_policies_keep_the_direction(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    """A scaled row keeps its direction."""
    for row, result in zip(matrix, bounded(matrix, policy, bound), strict=True):
        largest = np.abs(row).argmax()
        if row[largest]:
            np.testing.assert_allclose(result / result[largest], row / row[largest], rtol=1e-9, atol=1e-300)


@LAWS
@given(MATRICES, BOUNDS)
def test_reject_changes_nothing(matrix: FloatArray, bound: float) -> None:
    """`reject`: the rows are returned unchanged; the caller refuses them."""
    assert bounded(matrix, "reject", bound).tobytes() == matrix.tobytes()


@LAWS
@given(MATRICES, BOUNDS)
def test_none_changes_only_extreme_numbers(matrix: FloatArray, bound: float) -> None:
    """`none`: numbers up to 1e100 keep their bits, larger ones are clipped."""
    assert bounded(matrix, "none", bound).tobytes() == np.clip(matrix, -1e100, 1e100).tobytes()


@LAWS
@given(MATRICES, BOUNDS, st.sampled_from(["none", "unit", "scale", "reject"]))
def test_sparse_rows_scale_like_dense_rows(matrix: FloatArray, bound: float, policy: NormPolicy) -> None:
    """A context without its zeros scales to the same values as with them, up to the last digits."""
    kept = (matrix != 0) | (np.arange(matrix.shape[1]) == 0)  # at least one entry
    sparse = Contexts.sparse(kept.sum(axis=1), np.nonzero(kept)[1], matrix[kept])
    result = within_bound(sparse, policy, bound)
    np.testing.assert_allclose(result.values, bounded(matrix, policy, bound)[kept], rtol=1e-14)
    assert result.starts is sparse.starts
    assert result.indices is sparse.indices


@pytest.mark.parametrize("policy", ["none", "unit", "scale", "reject"])
def test_empty_batch_stays_empty(policy: NormPolicy) -> None:
    """An empty batch stays empty."""
    assert bounded(np.empty((0, 3)), policy, 1.0).shape == (0, 3)

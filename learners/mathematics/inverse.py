"""The inverse of a growing matrix, checked against the matrix regularly and recomputed if it has drifted.

Rank-one downdates (Sherman and Morrison 1950) maintain A⁻¹. Each leaves an error of about 1e-16 times the condition
number of A, and the errors add up; A itself is a sum and keeps its precision. So the state also contains A and the
right-hand side θ of w = A⁻¹θ. Every `CHECK_EVERY` updates, A A⁻¹ r is compared with r, a vector that is the same
on all workers, and A w with θ. If either pair differs too much, A⁻¹ and w are recomputed by Cholesky factorization.
All matrices are packed lower triangles.
"""

import numpy as np

from learners.base import FloatArray, IntArray, Problem
from learners.hyperparameters import refusal, rounded_up
from learners.kernels import compiled
from learners.mathematics.linear_algebra import (
    largest_diagonal,
    packed_cholesky,
    packed_product,
    packed_solve_lower,
    packed_solve_upper,
    squared_norm,
)

CHECK_EVERY = 500  # the number of updates between two checks

LARGEST_GROWTH = 1e7
"""The limit of X² / (p a), for propensity p and regularization a: half of what one update may add to A / a."""

_LEAST_RELATIVE_REGULARIZATION = 1e-9  # a / X²; the error of the inverse is about 1e-16 X² t / (p a) after t updates
_TOLERANCE = 1e-8  # for ‖A A⁻¹ r - r‖ / ‖r‖ and ‖A w - θ‖ / ‖θ‖
_GOLDEN = 0.6180339887498949  # its multiples modulo 1 are spread evenly over the unit interval
_MOST_SHIFTS = 400


def upkeep_cost(n: int) -> int:
    """Return the multiply-adds of a check and a rebuild of size n, spread over the updates between two checks."""
    return (n**3 // 2 + 3 * n**2) // CHECK_EVERY


@compiled
def maintain(matrix: FloatArray, theta: FloatArray, least: float, inverse: FloatArray, w: FloatArray) -> None:
    """Check the inverse and w (n,); recompute both from A and θ (n,) if one has drifted. `least` is as in `rebuild`."""
    if not (_inverts(matrix, inverse, len(w)) and _solves(matrix, theta, w)):
        rebuild(matrix, theta, least, inverse, w)


@compiled
def _inverts(matrix: FloatArray, inverse: FloatArray, n: int) -> bool:
    r, v, back = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        r[i] = ((i + 1) * _GOLDEN) % 1.0 - 0.5
    packed_product(inverse, r, v)
    packed_product(matrix, v, back)
    return _near(back, r)


@compiled
def _solves(matrix: FloatArray, theta: FloatArray, w: FloatArray) -> bool:
    back = np.empty(len(w))
    packed_product(matrix, w, back)
    return _near(back, theta)


@compiled
def _near(back: FloatArray, wanted: FloatArray) -> bool:
    """Check whether ‖back - wanted‖ is at most `_TOLERANCE` ‖wanted‖; overwrite back. False for NaN."""
    for i in range(len(back)):
        back[i] -= wanted[i]
    return squared_norm(back) <= _TOLERANCE**2 * squared_norm(wanted)


@compiled
def rebuild(matrix: FloatArray, theta: FloatArray, least: float, inverse: FloatArray, w: FloatArray) -> None:
    """Compute A⁻¹ and w = A⁻¹θ (n,) from a Cholesky factor of A: n³/2 multiply-adds.

    If rounding has brought A below `least` > 0, a lower bound on its eigenvalues, a multiple of I is added. If A cannot
    be factored at all, which only a corrupt state causes, inverse and w are unchanged.
    """
    n, factor = len(w), np.empty(len(matrix))
    if not _factored(matrix, n, least, factor):
        return
    w[:] = theta
    packed_solve_lower(factor, w)
    packed_solve_upper(factor, w)
    _invert_lower(factor, n)
    _square(factor, n, inverse)


@compiled
def _factored(matrix: FloatArray, n: int, least: float, factor: FloatArray) -> bool:
    shift = 0.0
    for _ in range(_MOST_SHIFTS):
        if packed_cholesky(matrix, shift, 0.5 * least, factor):
            return True
        shift = max(10.0 * shift, least, 1e-15 * largest_diagonal(matrix, n))
    return False


@compiled
def _invert_lower(factor: FloatArray, n: int) -> None:
    fresh = np.empty(n)
    for i in range(n):
        start = i * (i + 1) // 2
        fresh[: i + 1] = 0.0
        for k in range(i):
            above, share = factor[k * (k + 1) // 2 : k * (k + 1) // 2 + k + 1], factor[start + k]
            for j in range(k + 1):
                fresh[j] -= share * above[j]
        own = 1.0 / factor[start + i]
        for j in range(i):
            factor[start + j] = fresh[j] * own
        factor[start + i] = own


@compiled
def _square(lower: FloatArray, n: int, result: FloatArray) -> None:
    """Write M'M to a packed triangle, for M = `lower`."""
    result[:] = 0.0
    for k in range(n):
        row = lower[k * (k + 1) // 2 : k * (k + 1) // 2 + k + 1]
        for i in range(k + 1):
            own, into = row[i], result[i * (i + 1) // 2 : i * (i + 1) // 2 + i + 1]
            for j in range(i + 1):
                into[j] += own * row[j]


@compiled
def add_blocks(
    packed: FloatArray, d: int, indices: IntArray, values: FloatArray, low: int, high: int, factor: float
) -> None:
    """Add factor · u u' to a packed triangle, u being x on block `low` of d rows and -x on block `high` > low."""
    for position in range(len(values)):
        i, x = indices[position], factor * values[position]
        upper = (low * d + i) * (low * d + i + 1) // 2 + low * d
        across = (high * d + i) * (high * d + i + 1) // 2 + low * d
        lower = across - low * d + high * d
        for other in range(len(values)):
            j, product = indices[other], x * values[other]
            packed[across + j] -= product
            if j <= i:
                packed[upper + j] += product
                packed[lower + j] += product


@compiled
def add_square(packed: FloatArray, x: FloatArray, indices: IntArray) -> None:
    """Add x x' to a packed triangle, for a dense x (n,) that is zero outside these indices."""
    for i in indices:
        start, own = i * (i + 1) // 2, x[i]
        for j in indices:
            if j <= i:
                packed[start + j] += own * x[j]


def check_regularization(regularization: float, problem: Problem) -> None:
    """Raise `pydantic.ValidationError` if a < 1e-9 X² for A that starts as a·I: A⁻¹ would lose its precision."""
    if regularization < _LEAST_RELATIVE_REGULARIZATION * problem.norm_bound**2:
        least = rounded_up(_LEAST_RELATIVE_REGULARIZATION * problem.norm_bound**2)
        raise refusal("regularization", f"must be at least {least}, 1e-9 times the squared norm bound of the contexts")


def check_conditioning(problem: Problem, regularization: float, propensity: float) -> None:
    """Raise `pydantic.ValidationError` if a < X²/p / 1e7: one update adds up to 2X²/p to A = a·I + …."""
    least = problem.norm_bound**2 / propensity / LARGEST_GROWTH
    if regularization < least:
        advice = f"use a regularization of at least {rounded_up(least)}, a smaller norm_bound, or more exploration"
        raise refusal("regularization", f"A's inverse would lose its precision: {advice}")

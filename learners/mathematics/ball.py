"""Minimization of a quadratic over a ball, its matrix a packed lower triangle (`linear_algebra`).

Minimize ½ w'Aw + b'w subject to ‖w‖ ≤ D: w = -(A + μI)⁻¹b for the least μ ≥ 0 that brings w into the ball.
Newton's method finds μ as the root of 1/D - 1/‖w(μ)‖; it approaches the root from below without overshooting
(Moré and Sorensen 1983, "Computing a trust region step", section 3).
"""

import math

import numpy as np

from learners.base import FloatArray
from learners.kernels import compiled, compiled_sum
from learners.mathematics.linear_algebra import packed_solve_lower, packed_solve_upper, squared_norm

_MOST_STEPS = 100
_NORM_SLACK = 1e-13  # relative to the radius


@compiled
def ball_minimizer(packed: FloatArray, linear: FloatArray, radius: float, least: float, result: FloatArray) -> None:
    """Write argmin ½ w'Aw + linear'w over ‖w‖ ≤ radius to result (n,).

    `least` > 0 is a known lower bound on A's eigenvalues. If rounding has brought A below it, a multiple of I is added.
    Newton's method takes about five steps of n³/6 multiply-adds.
    """
    n, shift = len(linear), 0.0
    factor, curvature = np.empty(len(packed)), np.empty(n)
    result[:] = 0.0
    for _ in range(_MOST_STEPS):
        if not packed_cholesky(packed, shift, 0.5 * least, factor):
            shift = max(10.0 * shift, least, 1e-15 * largest_diagonal(packed, n))
            continue
        for i in range(n):
            result[i] = -linear[i]
        packed_solve_lower(factor, result)
        packed_solve_upper(factor, result)
        norm = math.sqrt(squared_norm(result))
        if norm <= radius * (1.0 + _NORM_SLACK):
            break
        curvature[:] = result
        packed_solve_lower(factor, curvature)
        shift += (norm / radius - 1.0) * norm * norm / squared_norm(curvature)
    _into_ball(result, radius)


@compiled
def _into_ball(vector: FloatArray, radius: float) -> None:
    norm = math.sqrt(squared_norm(vector))
    if not norm < math.inf:  # only possible with a corrupt matrix
        vector[:] = 0.0
    elif norm > radius:
        vector *= radius / norm


@compiled
def packed_product(packed: FloatArray, dense: FloatArray, result: FloatArray) -> None:
    """Write packed · dense to result (n,), for dense (n,)."""
    for i in range(len(dense)):
        start, own = i * (i + 1) // 2, dense[i]
        packed_row = packed[start : start + i + 1]
        result[i] = _dot(packed_row, dense, i + 1)
        if own != 0.0:
            for j in range(i):
                result[j] += own * packed_row[j]


@compiled
def packed_cholesky(packed: FloatArray, shift: float, least: float, factor: FloatArray) -> bool:
    """Write L with LL' = A + shift·I; return False if a pivot is less than `least`."""
    n = int(math.sqrt(2.0 * len(packed)))
    for i in range(n):
        start = i * (i + 1) // 2
        own = factor[start : start + i + 1]
        for j in range(i):
            other = factor[j * (j + 1) // 2 : j * (j + 1) // 2 + j + 1]
            own[j] = (packed[start + j] - _dot(own, other, j)) / other[j]
        pivot = packed[start + i] + shift - _dot(own, own, i)
        if not pivot >= least:
            return False
        own[i] = math.sqrt(pivot)
    return True


@compiled_sum
def _dot(left: FloatArray, right: FloatArray, length: int) -> float:
    total = 0.0
    for j in range(length):
        total += left[j] * right[j]
    return total


@compiled
def largest_diagonal(packed: FloatArray, n: int) -> float:
    """Return the largest absolute value of a diagonal entry."""
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(packed[i * (i + 1) // 2 + i]))
    return largest

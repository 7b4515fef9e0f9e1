"""Scaling of a positive matrix to row and column sums of 1, by Newton's method.

The sharper the matrix, the more sweeps alternate scaling of rows and columns (Sinkhorn) needs to halve its error.
Newton's method on the convex function Σ_i log Σ_j exp(l_ij + v_j) - Σ_j v_j of the column potentials alone (Brauer,
Clason, Lorenz and Wirth 2017, "A Sinkhorn-Newton method for entropic optimal transport") takes at most about 30 steps
if it starts near the solution, where the best permutation has l = 0 and no other entry is greater.
"""

import math

import numpy as np

from learners.base import FloatArray
from learners.kernels import compiled
from learners.mathematics.ball import packed_cholesky
from learners.mathematics.linear_algebra import packed_solve_lower, packed_solve_upper

_TOLERANCE = 1e-11  # for a column's sum; the error of an entry is at most the sum of the columns' errors
_MOST_STEPS = 100
_SLOPE_SHARE = 1e-4  # of the decrease that the slope predicts
_LEAST_SHARE = 2.0**-40  # of a Newton step
_ROUNDING = 1e-14


def balance_cost(n: int) -> int:
    """Return approximately the most multiply-adds that `balance` takes."""
    return _MOST_STEPS * (n**3 + 30 * n**2)


@compiled
def balance(logits: FloatArray) -> FloatArray:
    """Return the matrix exp(l_ij + u_i + v_j), (n, n), whose rows and columns sum to 1.

    `logits` are at most 0, and 0 along some permutation.
    """
    n = len(logits)
    v, step = np.zeros(n), np.empty(n)
    current, trial, columns, fresh = np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(n)
    value = _scale_rows(logits, v, current, columns)
    for _ in range(_MOST_STEPS):
        error = np.abs(columns - 1.0).max()
        if error <= _TOLERANCE:
            break
        slope, share, better = _newton_step(current, columns, error, step), 1.0, value
        while share > _LEAST_SHARE:
            better = _scale_rows(logits, v + share * step, trial, fresh)
            if better <= value - _SLOPE_SHARE * share * slope + _ROUNDING * (1.0 + abs(value)):
                break
            share *= 0.5
        if share <= _LEAST_SHARE:
            break
        v += share * step
        value = better
        current[:], columns[:] = trial, fresh
    return current


@compiled
def _scale_rows(logits: FloatArray, v: FloatArray, scaled: FloatArray, columns: FloatArray) -> float:
    """Write exp(l_ij + u_i + v_j) with row sums of 1, and its column sums; return the value of the function."""
    n, value = len(v), 0.0
    columns[:] = 0.0
    for i in range(n):
        top, total = -math.inf, 0.0
        for j in range(n):
            top = max(top, logits[i, j] + v[j])
        for j in range(n):
            scaled[i, j] = np.exp(logits[i, j] + v[j] - top)
            total += scaled[i, j]
        for j in range(n):
            scaled[i, j] /= total
            columns[j] += scaled[i, j]
        value += top + np.log(total) - v[i]
    return float(value)


@compiled
def _newton_step(scaled: FloatArray, columns: FloatArray, error: float, step: FloatArray) -> float:
    """Write the step H⁻¹(1 - columns), H = diag(columns) - P'P; return the first-order decrease that it predicts."""
    n = len(columns)
    hessian, factor = np.zeros(n * (n + 1) // 2), np.empty(n * (n + 1) // 2)
    for row in scaled:
        for j in range(n):
            start = j * (j + 1) // 2
            for k in range(j + 1):
                hessian[start + k] -= row[j] * row[k]
    for j in range(n):
        hessian[j * (j + 1) // 2 + j] += columns[j]
    shift = 1e-3 * error  # H is singular along 1, and nearly singular where labels hardly compete
    while not packed_cholesky(hessian, shift, 1e-16, factor) and shift < 1e3:
        shift *= 10.0
    for j in range(n):
        step[j] = 1.0 - columns[j]
    packed_solve_lower(factor, step)
    packed_solve_upper(factor, step)
    slope = 0.0
    for j in range(n):
        slope += step[j] * (1.0 - columns[j])
    return slope

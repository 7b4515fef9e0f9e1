"""The equation z = g - A softmax(z), and sums with the covariance of a softmax, without ill-conditioned inverses.

With S = diag(σ) - σσ' = LL', every system has the matrix I + L'AL, whose least eigenvalue is at least 1 for
any positive semi-definite A: a Cholesky factor always exists, and no pivot is below 1.
"""

import math

import numpy as np

from learners.base import FloatArray
from learners.kernels import compiled
from learners.mathematics.exploration import softmax

_MAX_STEPS = 200
_TOLERANCE = 1e-14  # of the residual, relative to 1 plus the largest entries
_LEAST_SHARE = 2.0**-40  # of a Newton step


@compiled
def covariance_factor(probabilities: FloatArray, factor: FloatArray) -> None:
    """Write L, (K, K - 1) and lower triangular, with LL' = diag(σ) - σσ'.

    In closed form, with τ_k the sum of σ_k, …, σ_K: L_kk = √(σ_k τ_{k+1} / τ_k) and L_ik = -σ_i / τ_{k+1} · L_kk
    for i > k.
    """
    K = len(probabilities)
    factor[:] = 0.0
    tail = probabilities[K - 1]
    for k in range(K - 2, -1, -1):
        whole = probabilities[k] + tail
        if tail > 0.0:
            factor[k, k] = math.sqrt(probabilities[k] * (tail / whole))
            for i in range(k + 1, K):
                factor[i, k] = -(probabilities[i] / tail) * factor[k, k]
        tail = whole


@compiled
def covariance_times(probabilities: FloatArray, vector: FloatArray, result: FloatArray) -> None:
    """Write (diag(σ) - σσ') v, (K,)."""
    mean = 0.0
    for k in range(len(vector)):
        mean += probabilities[k] * vector[k]
    for k in range(len(vector)):
        result[k] = probabilities[k] * (vector[k] - mean)


@compiled
def identity_plus(matrix: FloatArray, factor: FloatArray, scale: float, cholesky: FloatArray) -> None:
    """Write the Cholesky factor C of I + scale · L'AL, (K - 1, K - 1), for A (K, K) and L from `covariance_factor`."""
    K = len(matrix)
    product = np.zeros((K, K - 1))
    for i in range(K):
        for j in range(K):
            for k in range(min(j + 1, K - 1)):
                product[i, k] += matrix[i, j] * factor[j, k]
    for i in range(K - 1):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for k in range(i, K):
                total += scale * factor[k, i] * product[k, j]
            for k in range(j):
                total -= cholesky[i, k] * cholesky[j, k]
            # Rounding could take a pivot below its bound; this prevents a division by zero.
            cholesky[i, j] = math.sqrt(max(1.0, total)) if i == j else total / cholesky[j, j]


@compiled
def half_solve(cholesky: FloatArray, vector: FloatArray) -> None:
    """Replace v by C⁻¹ v, (K - 1,)."""
    for i in range(len(vector)):
        for j in range(i):
            vector[i] -= cholesky[i, j] * vector[j]
        vector[i] /= cholesky[i, i]


@compiled
def other_half_solve(cholesky: FloatArray, vector: FloatArray) -> None:
    """Replace v by C'⁻¹ v, (K - 1,)."""
    for i in range(len(vector) - 1, -1, -1):
        for j in range(i + 1, len(vector)):
            vector[i] -= cholesky[j, i] * vector[j]
        vector[i] /= cholesky[i, i]


@compiled
def solve_fixed_point(matrix: FloatArray, offset: FloatArray, z: FloatArray) -> None:
    """Write z (K,), the unique solution of z = g - A softmax(z), for A (K, K) positive semi-definite and g (K,).

    Apply damped Newton to F(z) = z - g + A softmax(z), starting at z = g; halve each step until the residual falls.
    """
    K = len(offset)
    sigma, residual, step = np.empty(K), np.empty(K), np.empty(K)
    z[:] = offset
    error = _residual(matrix, offset, z, sigma, residual)
    for _ in range(_MAX_STEPS):
        if error <= _TOLERANCE * (1.0 + np.max(np.abs(z)) + np.max(np.abs(offset))):
            return
        _newton_step(matrix, sigma, residual, step)
        next_error, share = math.inf, 2.0
        while next_error >= error:
            share *= 0.5
            if share < _LEAST_SHARE:  # rounding prevents further progress
                return
            next_error = _residual(matrix, offset, z + share * step, sigma, residual)
        z += share * step
        error = next_error


@compiled
def _residual(matrix: FloatArray, offset: FloatArray, z: FloatArray, sigma: FloatArray, residual: FloatArray) -> float:
    softmax(z, sigma)
    worst = 0.0
    for i in range(len(z)):
        residual[i] = z[i] - offset[i]
        for j in range(len(z)):
            residual[i] += matrix[i, j] * sigma[j]
        worst = max(worst, abs(residual[i]))
    return worst


@compiled
def _newton_step(matrix: FloatArray, sigma: FloatArray, residual: FloatArray, step: FloatArray) -> None:
    """Write -(I + AS)⁻¹ F, which is -F + A L (I + L'AL)⁻¹ L' F."""
    K = len(sigma)
    factor, cholesky, inner = np.empty((K, K - 1)), np.zeros((K - 1, K - 1)), np.zeros(K - 1)
    covariance_factor(sigma, factor)
    identity_plus(matrix, factor, 1.0, cholesky)
    for k in range(K - 1):
        for i in range(k, K):
            inner[k] += factor[i, k] * residual[i]
    half_solve(cholesky, inner)
    other_half_solve(cholesky, inner)
    for i in range(K):
        step[i] = -residual[i]
        for j in range(K):
            for k in range(min(j + 1, K - 1)):
                step[i] += matrix[i, j] * factor[j, k] * inner[k]

"""Products of weights and contexts, and symmetric matrices stored as packed lower triangles.

Weights are stored feature-major, (d, K), so that each non-zero of a context multiplies K adjacent numbers.

A packed triangle of size n is one array of n(n+1)/2 numbers, row by row: entry (i, j), j <= i, is at index
i(i+1)/2 + j. It is symmetric by construction and takes half the memory of the square.

`ball_minimizer` minimizes ½ w'Aw + b'w subject to ‖w‖ ≤ D: w = -(A + μI)⁻¹b for the least μ ≥ 0 that brings w into the
ball. Newton's method finds μ as the root of 1/D - 1/‖w(μ)‖; it approaches the root from below without overshooting
(Moré and Sorensen 1983, "Computing a trust region step", section 3).
"""

import math

import numpy as np

from learners.base import Contexts, FloatArray, IntArray
from learners.kernels import compiled, compiled_sum, row

_SMALLEST_SCALE = 1e-100


def scores(weights: FloatArray, contexts: Contexts) -> FloatArray:
    """Return W x for each context, (n, K), from weights (d, K); bit-identical for every batch size."""
    result = np.empty((contexts.n, weights.shape[1]))
    _scores(weights, contexts, result)
    return result


@compiled
def _scores(weights: FloatArray, contexts: Contexts, result: FloatArray) -> None:
    for i in range(len(result)):
        score_row(weights, contexts, i, result[i])


@compiled
def score_row(weights: FloatArray, contexts: Contexts, i: int, result: FloatArray) -> None:
    """Write W x for the i-th context to result (K,)."""
    indices, values = row(contexts, i)
    result[:] = 0.0
    score(weights, indices, values, result)


@compiled
def score(weights: FloatArray, indices: IntArray, values: FloatArray, result: FloatArray) -> None:
    """Add W x for one context to result (K,), four entries per pass, which saves loads and stores of the result."""
    whole = len(values) // 4 * 4
    for at in range(0, whole, 4):
        a, b, c, d = indices[at], indices[at + 1], indices[at + 2], indices[at + 3]
        for k in range(len(result)):
            total = result[k] + values[at] * weights[a, k]
            total += values[at + 1] * weights[b, k]
            total += values[at + 2] * weights[c, k]
            result[k] = total + values[at + 3] * weights[d, k]
    for at in range(whole, len(values)):
        for k in range(len(result)):
            result[k] += values[at] * weights[indices[at], k]


@compiled
def add_outer(weights: FloatArray, coefficients: FloatArray, indices: IntArray, values: FloatArray) -> float:
    """Add x ⊗ coefficients to weights (d, K); return the change of their squared norm."""
    change = squared_norm(coefficients) * squared_norm(values)
    for position in range(len(values)):
        i, x = indices[position], values[position]
        change += 2.0 * x * _row_dot(weights, i, coefficients)
        for k in range(len(coefficients)):
            weights[i, k] += x * coefficients[k]
    return change


@compiled
def scale_into_ball(radius: float, direction: FloatArray, scale: FloatArray, norm_squared: FloatArray) -> None:
    """Project scale · direction (d, K) onto the Frobenius ball; change only the scale, unless it would underflow."""
    norm = math.sqrt(norm_squared.item())
    if scale.item() * norm <= radius:
        return
    scale[()] = radius / norm
    if scale.item() < _SMALLEST_SCALE:
        direction[:] *= scale.item()
        norm_squared[()] *= scale.item() ** 2
        scale[()] = 1.0


@compiled
def add_to_label(weights: FloatArray, label: int, factor: float, indices: IntArray, values: FloatArray) -> None:
    """Add factor · x to one label's weights, a column of (d, K)."""
    for position in range(len(values)):
        weights[indices[position], label] += factor * values[position]


@compiled_sum
def _row_dot(weights: FloatArray, i: int, coefficients: FloatArray) -> float:
    total = 0.0
    for k in range(len(coefficients)):
        total += weights[i, k] * coefficients[k]
    return total


@compiled_sum
def squared_norm(vector: FloatArray) -> float:
    """Return the sum of the squares of a vector's entries."""
    total = 0.0
    for entry in vector:
        total += entry * entry
    return total


@compiled
def densify(contexts: Contexts, i: int, dense: FloatArray) -> None:
    """Write the i-th context to dense (d,)."""
    indices, values = row(contexts, i)
    dense[:] = 0.0
    for position in range(len(values)):
        dense[indices[position]] = values[position]


@compiled
def packed_identity(packed: FloatArray, scale: float, n: int) -> None:
    """Write scale · I of size n into a packed triangle of zeros."""
    for i in range(n):
        packed[i * (i + 1) // 2 + i] = scale


@compiled
def packed_rank_one(packed: FloatArray, vector: FloatArray, factor: float) -> None:
    """Add factor · v v' to a packed triangle."""
    for i in range(len(vector)):
        start = i * (i + 1) // 2
        packed_row = packed[start : start + i + 1]
        scaled = factor * vector[i]
        for j in range(i + 1):
            packed_row[j] += scaled * vector[j]


@compiled
def packed_times_blocks(
    packed: FloatArray, dense: FloatArray, low: int, high: int, sign: float, result: FloatArray
) -> None:
    """Write packed · u to result (n,), u being sign·x on block `low` of d rows, -sign·x on `high` > low, in O(dn)."""
    d = len(dense)
    result[:] = 0.0
    for i in range(len(result)):
        start = i * (i + 1) // 2
        block = i // d
        total = 0.0
        if block >= low:
            total += sign * _dot(packed, start + low * d, dense, min(d, i + 1 - low * d))
        if block >= high:
            total -= sign * _dot(packed, start + high * d, dense, min(d, i + 1 - high * d))
        if block in (low, high):
            own = sign * dense[i - block * d] if block == low else -sign * dense[i - block * d]
            packed_row = packed[start : start + i]
            for j in range(i):
                result[j] += own * packed_row[j]
        result[i] += total


@compiled
def packed_blocks_quadratic(packed: FloatArray, dense: FloatArray, low: int, high: int) -> float:
    """Return u' packed u, u being x on block `low` and -x on block `high` > low: 2d² multiply-adds."""
    d = len(dense)
    total = 0.0
    for i in range(d):
        start = (low * d + i) * (low * d + i + 1) // 2 + low * d
        total += dense[i] * (2.0 * _dot(packed, start, dense, i) + dense[i] * packed[start + i])
        start = (high * d + i) * (high * d + i + 1) // 2
        total -= 2.0 * dense[i] * _dot(packed, start + low * d, dense, d)
        start += high * d
        total += dense[i] * (2.0 * _dot(packed, start, dense, i) + dense[i] * packed[start + i])
    return total


@compiled
def packed_sparse_blocks_quadratic(
    packed: FloatArray, d: int, indices: IntArray, values: FloatArray, low: int, high: int
) -> float:
    """Do the same as `packed_blocks_quadratic` for a sparse x with indices in any order: 2·nnz² multiply-adds."""
    total = 0.0
    for position in range(len(values)):
        i, inner = indices[position], 0.0
        across = (high * d + i) * (high * d + i + 1) // 2 + low * d
        for other in range(len(values)):
            j = indices[other]
            inner -= 2.0 * values[other] * packed[across + j]
            if j <= i:
                twice = values[other] if j == i else 2.0 * values[other]
                inner += twice * packed[(low * d + i) * (low * d + i + 1) // 2 + low * d + j]
                inner += twice * packed[across - low * d + high * d + j]
        total += values[position] * inner
    return total


@compiled
def packed_solve_lower(factor: FloatArray, vector: FloatArray) -> None:
    """Replace vector (n,) by L⁻¹ vector, for L the first n rows of a packed triangle."""
    for i in range(len(vector)):
        start = i * (i + 1) // 2
        vector[i] = (vector[i] - _dot(factor, start, vector, i)) / factor[start + i]


@compiled
def packed_solve_upper(factor: FloatArray, vector: FloatArray) -> None:
    """Replace vector (n,) by L'⁻¹ vector, for L the first n rows of a packed triangle."""
    for i in range(len(vector) - 1, -1, -1):
        start = i * (i + 1) // 2
        own = vector[i] / factor[start + i]
        vector[i] = own
        packed_row = factor[start : start + i]
        for j in range(i):
            vector[j] -= own * packed_row[j]


@compiled
def packed_times_each_block(packed: FloatArray, dense: FloatArray, result: FloatArray) -> None:
    """Write packed · (e_k ⊗ x) to row k of result (K, n), for every k, in one pass over the triangle."""
    d = len(dense)
    result[:] = 0.0
    for i in range(result.shape[1]):
        start, own = i * (i + 1) // 2, i // d
        for block in range(own + 1):
            result[block, i] += _dot(packed, start + block * d, dense, min(d, i + 1 - block * d))
        x = dense[i - own * d]
        if x != 0.0:
            packed_row, sums = packed[start : start + i], result[own]
            for j in range(i):
                sums[j] += x * packed_row[j]


@compiled
def packed_block_forms(packed: FloatArray, dense: FloatArray, result: FloatArray) -> None:
    """Write (e_k ⊗ x)' packed (e_l ⊗ x) to result (K, K); skip rows where x is zero."""
    d, K = len(dense), len(result)
    result[:] = 0.0
    for i in range(d):
        if dense[i] == 0.0:
            continue
        for k in range(K):
            start = (k * d + i) * (k * d + i + 1) // 2
            for block in range(k):
                result[k, block] += dense[i] * _dot(packed, start + block * d, dense, d)
            start += k * d
            result[k, k] += dense[i] * (2.0 * _dot(packed, start, dense, i) + dense[i] * packed[start + i])
    for k in range(K):
        for block in range(k):
            result[block, k] = result[k, block]


@compiled_sum
def _dot(packed: FloatArray, start: int, dense: FloatArray, length: int) -> float:
    segment = packed[start : start + length]
    total = 0.0
    for j in range(length):
        total += segment[j] * dense[j]
    return total


_MOST_STEPS = 100
_NORM_SLACK = 1e-13  # relative to the radius


@compiled
def ball_minimizer(packed: FloatArray, linear: FloatArray, radius: float, least: float, result: FloatArray) -> None:
    """Write argmin ½ w'Aw + linear'w over ‖w‖ ≤ radius to result (n,); A's eigenvalues are at least `least`."""
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
        result[i] = _front_dot(packed_row, dense, i + 1)
        if own != 0.0:
            for j in range(i):
                result[j] += own * packed_row[j]


@compiled
def packed_cholesky(packed: FloatArray, shift: float, least: float, factor: FloatArray) -> bool:
    """Write L with LL' = A + shift·I to factor; return False if a pivot is less than `least`, or NaN."""
    n = int(math.sqrt(2.0 * len(packed)))
    for i in range(n):
        start = i * (i + 1) // 2
        own = factor[start : start + i + 1]
        for j in range(i):
            other = factor[j * (j + 1) // 2 : j * (j + 1) // 2 + j + 1]
            own[j] = (packed[start + j] - _front_dot(own, other, j)) / other[j]
        pivot = packed[start + i] + shift - _front_dot(own, own, i)
        if not pivot >= least:
            return False
        own[i] = math.sqrt(pivot)
    return True


@compiled_sum
def _front_dot(left: FloatArray, right: FloatArray, length: int) -> float:
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

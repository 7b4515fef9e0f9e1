"""Projection onto the convex hull of vertices that a linear oracle defines: fully corrective Frank-Wolfe.

Frank-Wolfe adds the vertex that the oracle returns for the gradient. Its fully corrective variant then moves to the
nearest point of the hull of the vertices so far (Wolfe 1976, "Finding the nearest point in a polytope"). This converges
linearly on every polytope (Lacoste-Julien and Jaggi 2015, "On the global linear convergence of Frank-Wolfe optimization
variants", Theorem 1), like the variant of Garber and Wolf 2021 that Sakaue et al. 2024 name, and in exact arithmetic
ends after finitely many steps. In D dimensions, the result combines at most D + 1 affinely independent vertices.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from learners.base import FloatArray
from learners.kernels import compiled
from learners.mathematics.linear_algebra import packed_cholesky, packed_solve_lower, packed_solve_upper

Oracle: TypeAlias = Callable[[FloatArray], FloatArray]
"""Returns a vertex y (D,) with the least ⟨c, y⟩, for costs c (D,)."""

_LEAST_WEIGHT = 1e-14  # vertices of less weight are left out
_LEAST_PIVOT = 1e-9  # the square of the least distance between a vertex and the affine hull of those before it
_GAP = 4e-15  # duality gap at which to stop, about the rounding error, in units of D times the largest coordinate


def nearest_point(point: FloatArray, oracle: Oracle) -> tuple[FloatArray, FloatArray]:
    """Return the point of the hull nearest to a point (D,) in ℓ2, as m weights, which sum to 1, and vertices (m, D)."""
    D = len(point)
    vertices, weights, excess = np.empty((D + 2, D)), np.zeros(D + 2), np.empty(D)
    vertices[0], weights[0], count = oracle(-point), 1.0, 1
    least = _GAP * D * max(1.0, float(np.abs(point).max()), float(np.abs(vertices[0]).max()))
    for _ in range(20 * (D + 5)):
        _subtract(vertices[:count], weights[:count], point, excess)
        vertices[count] = oracle(excess)
        if not _lowers(vertices, weights, count, excess, least):
            break
        kept = _correct(vertices, weights, count + 1, point)
        if kept == 0:
            break
        count = kept
    _refine(vertices[:count], weights[:count], point)
    return weights[:count], vertices[:count]


@compiled
def _subtract(vertices: FloatArray, weights: FloatArray, point: FloatArray, excess: FloatArray) -> None:
    """Write Σ w_i y_i - point to excess (D,)."""
    for j in range(len(point)):
        excess[j] = -point[j]
    for i in range(len(weights)):
        for j in range(len(point)):
            excess[j] += weights[i] * vertices[i, j]


@compiled
def _lowers(vertices: FloatArray, weights: FloatArray, count: int, excess: FloatArray, least: float) -> bool:
    """Check whether vertices[count] differs from all vertices before it and has a duality gap above `least`."""
    gap = 0.0
    for j in range(len(excess)):
        mean = 0.0
        for i in range(count):
            mean += weights[i] * vertices[i, j]
        gap += excess[j] * (mean - vertices[count, j])
    known = False
    for i in range(count):
        known |= (vertices[i] == vertices[count]).all()
    return gap > least and not known


@compiled
def _correct(vertices: FloatArray, weights: FloatArray, count: int, point: FloatArray) -> int:
    """Move to the nearest point of the hull of `count` vertices; drop those without weight; return how many remain.

    The last vertex is new. If rounding makes it dependent on the others or leaves it no weight, returns 0 and does not
    change the others.
    """
    new, target = count - 1, np.empty(count)
    weights[new] = 0.0
    while _affine_weights(vertices, count, point, target):
        share, emptied = _step(weights[:count], target[:count])
        if emptied == new:
            return 0
        new = -2  # no index: after the first step, the new vertex is dropped as any other
        for i in range(count):
            weights[i] += share * (target[i] - weights[i])
        if emptied < 0:
            return count
        weights[emptied] = 0.0
        count = _drop(vertices, weights, count)
    return 0 if new >= 0 else count


@compiled
def _step(weights: FloatArray, target: FloatArray) -> tuple[float, int]:
    """Return the share of the way from weights to target (m,) at which a first weight vanishes, and its index.

    If no weight vanishes, the share is 1 and the index -1.
    """
    share, emptied = 1.0, -1
    for i in range(len(weights)):
        if target[i] <= _LEAST_WEIGHT:
            step = weights[i] / (weights[i] - target[i]) if weights[i] > target[i] else 0.0
            if emptied < 0 or step < share:
                share, emptied = step, i
    return share, emptied


@compiled
def _drop(vertices: FloatArray, weights: FloatArray, count: int) -> int:
    """Move the vertices with weight to the front, and normalize their weights to sum to 1; return their number."""
    kept, total = 0, 0.0
    for i in range(count):
        if weights[i] > _LEAST_WEIGHT:
            weights[kept] = weights[i]
            vertices[kept] = vertices[i]
            total += weights[i]
            kept += 1
    for i in range(kept):
        weights[i] /= total
    return kept


@compiled
def _affine_weights(vertices: FloatArray, count: int, point: FloatArray, target: FloatArray) -> bool:
    """Write the weights (count,) of the nearest point of the affine hull; return False if vertices are dependent."""
    n, D = count - 1, len(point)
    edges, gram, factor = np.empty((n, D)), np.empty(n * (n + 1) // 2), np.empty(n * (n + 1) // 2)
    solution = np.empty(n)
    for i in range(n):
        solution[i] = 0.0
        for j in range(D):
            edges[i, j] = vertices[i + 1, j] - vertices[0, j]
            solution[i] += edges[i, j] * (point[j] - vertices[0, j])
        for k in range(i + 1):
            total = 0.0
            for j in range(D):
                total += edges[i, j] * edges[k, j]
            gram[i * (i + 1) // 2 + k] = total
    if not packed_cholesky(gram, 0.0, _LEAST_PIVOT, factor):
        return False
    packed_solve_lower(factor, solution)
    packed_solve_upper(factor, solution)
    target[0] = 1.0
    for i in range(n):
        target[i + 1] = solution[i]
        target[0] -= solution[i]
    return True


@compiled
def _refine(vertices: FloatArray, weights: FloatArray, point: FloatArray) -> None:
    """Reduce the rounding errors of the weights by one step of iterative refinement, if all stay positive."""
    count, mean, correction = len(weights), point.copy(), np.empty(len(weights))
    for j in range(len(point)):
        mean[j] += vertices[0, j]
        for i in range(count):
            mean[j] -= weights[i] * vertices[i, j]
    if not _affine_weights(vertices, count, mean, correction):
        return
    correction[0] -= 1.0
    for i in range(count):
        if not weights[i] + correction[i] > 0.0:
            return
    for i in range(count):
        weights[i] += correction[i]

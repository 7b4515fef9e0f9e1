"""Rankings and matchings as permutation matrices, with the negative entropy as regularizer: the Birkhoff polytope.

The mean is a positive matrix, scaled to row and column sums of 1. The sharper the matrix, the more sweeps alternating
scaling of rows and columns (Sinkhorn) needs to halve its error. So column potentials v are found by Newton's method on
the convex function Σ_i log Σ_j exp(l_ij + v_j) - Σ_j v_j, for logits l (Brauer, Clason, Lorenz and Wirth 2017, "A
Sinkhorn-Newton method for entropic optimal transport"). It takes at most about 30 steps after a shift of rows and
columns that makes l zero on the best permutation and never positive: then v = 0 is near the solution.
"""

import math
from typing import Annotated

import numpy as np
import pydantic

from learners.base import FloatArray, IntArray
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled
from learners.mathematics.exploration import draw_one
from learners.mathematics.linear_algebra import packed_cholesky, packed_solve_lower, packed_solve_upper
from learners.output_spaces.base import Constants, OutputSpace

_LEAST_ENTRY = 1e-13  # smaller entries count as 0 once a permutation has been subtracted


@hyperparameters
class Matching(OutputSpace):
    """Outputs are n × n permutation matrices, row by row: entry i·n + j is 1 if item i gets place j.

    The loss is the share of items in a wrong place, the regularizer -H/μ, μ < 2. Norm ℓ1, ν = 4, γ = 1/(2n), λ =
    1/(nμ). The mean is exact to 1e-9 for all scores: Newton's method starts from the best assignment. A last step moves
    it into the polytope (Altschuler, Weed and Rigollet 2017, Algorithm 2), so that E[ỹ] = ŷ in spite of column errors.
    """

    norm_order = 1

    name = "matching"
    n_uniforms = 2  # one to mix, one to draw
    n_items: Annotated[int, pydantic.Field(ge=2, le=100)]
    """n; a random answer solves up to n² assignment problems of O(n³) each."""
    sharpness: Annotated[float, pydantic.Field(ge=1e-6, lt=2)] = 1.0
    """μ of the regularizer -H/μ, H being the entropy; less than 2."""

    @property
    def dimension(self) -> int:
        return self.n_items**2

    @property
    def draw_cost(self) -> int:
        return balance_cost(self.n_items) + 4 * self.n_items**5

    @property
    def constants(self) -> Constants:
        n = self.n_items
        return Constants(1.0 / (2 * n), 4.0, 1.0 / (n * self.sharpness), 1.0, 2.0 * n)

    def is_vertex(self, output: FloatArray) -> bool:
        square = self._square(output)
        sums = np.concatenate([square.sum(axis=0), square.sum(axis=1)])
        return bool(np.isin(output, (0.0, 1.0)).all() and (sums == 1.0).all())

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return the matrix of the form exp(μθ + u + v) whose rows and columns sum to 1."""
        return _rounded(balance(below_best(self._square(scores) * self.sharpness))).reshape(-1)

    def nearest(self, mean: FloatArray) -> FloatArray:
        return self._matrix(best_assignment(self._square(mean)))

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw one of the permutations that the mean decomposes into."""
        weights, permutations = decompose(self._square(mean))
        return self._matrix(permutations[draw_one(weights, uniforms[0])[0]])

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the weight of the permutation in the decomposition."""
        weights, permutations = decompose(self._square(mean))
        return float(weights @ (permutations == self._square(output).argmax(axis=1)).all(axis=1))

    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """Return 1 - ⟨y', y⟩/n, the share of misplaced items."""
        return 1.0 - float(output @ truth) / self.n_items

    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return ⟨θ, ŷ - y⟩ + H(ŷ)/μ."""
        mean = self.decode(scores)
        entropy = -float(mean @ np.log(np.maximum(mean, 1e-300)))
        return max(0.0, float(scores @ (mean - truth)) + entropy / self.sharpness)

    def _square(self, vector: FloatArray) -> FloatArray:
        return np.ascontiguousarray(vector).reshape(self.n_items, self.n_items)

    def _matrix(self, permutation: IntArray) -> FloatArray:
        result = np.zeros((self.n_items, self.n_items))
        result[np.arange(self.n_items), permutation] = 1.0
        return result.reshape(-1)


@compiled
def below_best(gains: FloatArray) -> FloatArray:
    """Return gains (n, n) plus the dual potentials: 0 along the best assignment, and never positive."""
    n = len(gains)
    rows, columns = np.zeros(n + 1), np.zeros(n + 1)
    best = _assign(gains, rows, columns)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            result[i, j] = min(0.0, gains[i, j] + rows[i + 1] + columns[j + 1])
        result[i, best[i]] = 0.0
    return result


def _rounded(matrix: FloatArray) -> FloatArray:
    scaled = matrix / np.maximum(matrix.sum(axis=1), 1.0)[:, None]
    scaled = scaled / np.maximum(scaled.sum(axis=0), 1.0)
    rows, columns = np.maximum(1.0 - scaled.sum(axis=1), 0.0), np.maximum(1.0 - scaled.sum(axis=0), 0.0)
    missing = rows.sum()
    result: FloatArray = scaled + np.outer(rows, columns) / missing if missing > 0.0 else scaled
    return result


@compiled
def decompose(mean: FloatArray) -> tuple[FloatArray, IntArray]:
    """Decompose a doubly stochastic matrix (n, n) into m <= n² weights, which sum to 1, and permutations (m, n)."""
    n = len(mean)
    rest, weights, permutations = mean.copy(), np.zeros(n * n), np.zeros((n * n, n), dtype=np.int64)
    count = 0
    while count < n * n:
        permutations[count] = best_assignment(np.where(rest > 0.0, rest, -(n + 1.0)))
        weights[count] = _take_out(rest, permutations[count])
        if weights[count] <= 0.0:
            break
        count += 1
    total = weights[:count].sum()
    return weights[:count] / total, permutations[:count]


@compiled
def _take_out(rest: FloatArray, permutation: IntArray) -> float:
    """Subtract as much of a permutation from a matrix (n, n) as possible; return the weight subtracted."""
    weight = 1.0
    for i in range(len(rest)):
        weight = min(weight, rest[i, permutation[i]])
    for i in range(len(rest)):
        rest[i, permutation[i]] -= weight
        if rest[i, permutation[i]] <= _LEAST_ENTRY:
            rest[i, permutation[i]] = 0.0
    return weight


@compiled
def best_assignment(gains: FloatArray) -> IntArray:
    """Return each row's column, (n,), for the greatest sum of gains (n, n), by the Hungarian method in O(n³)."""
    return _assign(gains, np.zeros(len(gains) + 1), np.zeros(len(gains) + 1))


@compiled
def _assign(gains: FloatArray, rows: FloatArray, columns: FloatArray) -> IntArray:
    """Do the same as `best_assignment`; write dual potentials, with reduced costs ≥ 0, to zeroed arrays (n + 1,)."""
    n = len(gains)
    owner = np.zeros(n + 1, dtype=np.int64)  # the row of each column, both counted from 1; 0 for none
    before = np.zeros(n + 1, dtype=np.int64)  # the column before each column on the path
    for i in range(1, n + 1):
        owner[0] = i
        column = _search(gains, rows, columns, owner, before)
        while column != 0:
            owner[column] = owner[before[column]]
            column = before[column]
    result = np.empty(n, dtype=np.int64)
    for j in range(1, n + 1):
        result[owner[j] - 1] = j - 1
    return result


@compiled
def _search(gains: FloatArray, rows: FloatArray, columns: FloatArray, owner: IntArray, before: IntArray) -> int:
    """Return the free column at the end of the shortest path from the row that owns column 0; update the potentials."""
    n = len(gains)
    least, reached = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.bool_)
    column = 0
    while True:
        reached[column] = True
        i, delta, following = owner[column], np.inf, 0
        for j in range(1, n + 1):
            if not reached[j]:
                cost = -gains[i - 1, j - 1] - rows[i] - columns[j]
                if cost < least[j]:
                    least[j], before[j] = cost, column
                if least[j] < delta:
                    delta, following = least[j], j
        for j in range(n + 1):
            if reached[j]:
                rows[owner[j]] += delta
                columns[j] -= delta
            else:
                least[j] -= delta
        column = following
        if owner[column] == 0:
            return column


_TOLERANCE = 1e-11  # for a column's sum; the error of an entry is at most the sum of the columns' errors
_MOST_STEPS = 100
_SLOPE_SHARE = 1e-4  # a step must achieve this share of the decrease that the slope predicts
_LEAST_SHARE = 2.0**-40  # the line search gives up at this share of a Newton step
_ROUNDING = 1e-14


def balance_cost(n: int) -> int:
    """Return roughly the most multiply-adds that `balance` takes."""
    return _MOST_STEPS * (n**3 + 30 * n**2)


@compiled
def balance(logits: FloatArray) -> FloatArray:
    """Return exp(l_ij + u_i + v_j), (n, n), with row and column sums 1, for l ≤ 0 that is 0 along a permutation."""
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
    """Write exp(l_ij + u_i + v_j) with row sums of 1, and its column sums; return the convex function's value."""
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
    """Write the step H⁻¹(1 - columns), H = diag(columns) - P'P for P = scaled; return its first-order decrease."""
    n = len(columns)
    hessian, factor = np.zeros(n * (n + 1) // 2), np.empty(n * (n + 1) // 2)
    for row in scaled:
        for j in range(n):
            start = j * (j + 1) // 2
            for k in range(j + 1):
                hessian[start + k] -= row[j] * row[k]
    for j in range(n):
        hessian[j * (j + 1) // 2 + j] += columns[j]
    shift = 1e-3 * error  # H is singular along the vector of ones, and nearly singular if P is nearly a permutation
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

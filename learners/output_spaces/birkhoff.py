"""Rankings and matchings as permutation matrices, with the negative entropy as regularizer: the Birkhoff polytope."""

from typing import Annotated, Literal

import numpy as np
import pydantic

from learners.base import FloatArray, IntArray
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled
from learners.mathematics.exploration import draw_one
from learners.output_spaces.balancing import balance, balance_cost
from learners.output_spaces.base import Constants, OutputSpace

_LEAST_ENTRY = 1e-13  # smaller entries count as 0 once a permutation has been subtracted


@hyperparameters
class Matching(OutputSpace):
    """Outputs are n × n permutation matrices, row by row: entry i·n + j is 1 if item i gets place j.

    The loss is the share of items in a wrong place, the regularizer -H/μ. Norm ℓ1, ν = 4, γ = 1/(2n), λ = 1/(nμ).
    The mean is exact to 1e-9 for all scores: Newton's method starts from the best assignment (`balancing`). The
    remaining column error is rounded into the polytope (Altschuler, Weed and Rigollet 2017, Algorithm 2), so that
    E[ỹ] = ŷ.

    Raises:
        pydantic.ValidationError: if μ >= 2, or if another field is out of range.
    """

    norm_order = 1

    name: Literal["matching"] = "matching"
    """The discriminator of the space in JSON."""
    n_items: Annotated[int, pydantic.Field(ge=2, le=100)]
    """n; a random answer solves up to n² assignment problems of O(n³) each."""
    sharpness: Annotated[float, pydantic.Field(ge=1e-6, lt=2)] = 1.0
    """μ of the regularizer -H/μ, H being the entropy; less than 2."""

    @property
    def dimension(self) -> int:
        """n²."""
        return self.n_items**2

    @property
    def n_uniforms(self) -> int:
        """2: one to mix, one to draw."""
        return 2

    @property
    def draw_cost(self) -> int:
        """Approximate multiply-adds of balancing the mean and of two decompositions."""
        return balance_cost(self.n_items) + 4 * self.n_items**5

    @property
    def constants(self) -> Constants:
        """The constants in ℓ1."""
        n = self.n_items
        return Constants(1.0 / (2 * n), 4.0, 1.0 / (n * self.sharpness), 1.0, 2.0 * n)

    def is_vertex(self, output: FloatArray) -> bool:
        """Check whether the entries are 0 or 1, with one 1 in each row and column."""
        square = self._square(output)
        sums = np.concatenate([square.sum(axis=0), square.sum(axis=1)])
        return bool(np.isin(output, (0.0, 1.0)).all() and (sums == 1.0).all())

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return the matrix of the form exp(μθ + u + v) whose rows and columns sum to 1."""
        return _rounded(balance(below_best(self._square(scores) * self.sharpness))).reshape(-1)

    def nearest(self, mean: FloatArray) -> FloatArray:
        """Return the best assignment (Proposition 3.2)."""
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
    """Return gains (n, n) plus the dual potentials: 0 along the best assignment, and nowhere positive."""
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
    """Return a doubly stochastic matrix near a matrix (n, n) of non-negative numbers."""
    scaled = matrix / np.maximum(matrix.sum(axis=1), 1.0)[:, None]
    scaled = scaled / np.maximum(scaled.sum(axis=0), 1.0)
    rows, columns = np.maximum(1.0 - scaled.sum(axis=1), 0.0), np.maximum(1.0 - scaled.sum(axis=0), 0.0)
    missing = rows.sum()
    result: FloatArray = scaled + np.outer(rows, columns) / missing if missing > 0.0 else scaled
    return result


@compiled
def decompose(mean: FloatArray) -> tuple[FloatArray, IntArray]:
    """Decompose a doubly stochastic matrix (n, n) into weights (m,), which sum to 1, and permutations (m, n).

    Greedy: subtract the best assignment of the remainder, with its least entry as weight; m <= n².
    """
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
    """Subtract as much of a permutation from a matrix (n, n) as possible; return that weight."""
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
    """Return the column of each row (n,), all distinct, with the greatest sum of finite gains (n, n): O(n³).

    The Hungarian method (Kuhn 1955, Munkres 1957). If all gains are equal, row i gets column i.
    """
    return _assign(gains, np.zeros(len(gains) + 1), np.zeros(len(gains) + 1))


@compiled
def _assign(gains: FloatArray, rows: FloatArray, columns: FloatArray) -> IntArray:
    """Solve as `best_assignment`; write dual potentials to `rows` and `columns` (n + 1,), which must be zeros.

    The reduced costs -gains - row - column are not negative.
    """
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
    """Return the free column at the end of the shortest path from the row at column 0; keep the potentials feasible."""
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

"""Rankings as vectors of points, with (λ/2)‖y‖² as regularizer: the permutahedron."""

import math
from typing import Annotated

import numpy as np
import pydantic

from learners.base import FloatArray, IntArray
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled
from learners.output_spaces.base import Constants, OutputSpace, quadratic_surrogate
from learners.output_spaces.isotonic import nonincreasing_fit

_SLACK = 1e-13  # per item; smaller differences between points count as rounding errors


@hyperparameters
class Ranking(OutputSpace):
    """Outputs are the permutations of D, D-1, …, 1: entry i is the points of item i, D for the best item.

    The loss is ⟨y, y - y'⟩/M with M = D(D² - 1)/6, from 0 to 1 for the reverse order. Norm ℓ2, ν = √2, λ > 4γ/ν. The γ
    printed in Appendix C.1 is too small; γ = √(3/(D(D² - 1))) is the least valid value.
    """

    norm_order = 2

    name = "ranking"
    n_items: Annotated[int, pydantic.Field(ge=2, le=10_000)]
    """D."""
    regularization: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4γ/ν; `null` for twice that."""

    @property
    def dimension(self) -> int:
        return self.n_items

    @property
    def n_uniforms(self) -> int:
        return self.n_items

    @property
    def largest_entry(self) -> float:
        return float(self.n_items)

    @property
    def draw_cost(self) -> int:
        return 4 * self.n_items**2

    @property
    def constants(self) -> Constants:
        cubic = self.n_items * (self.n_items**2 - 1.0)
        gamma, nu = math.sqrt(3.0 / cubic), math.sqrt(2.0)
        strong_convexity = 8.0 * gamma / nu if self.regularization is None else self.regularization
        return Constants(gamma, nu, strong_convexity, 1.0, math.sqrt(cubic / 3.0))

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.array_equal(np.sort(output), np.arange(1.0, self.n_items + 1.0)))

    def decode(self, scores: FloatArray) -> FloatArray:
        """Project θ/λ: sort it, cap gaps at D, then subtract the non-increasing fit of its excess over D, …, 1."""
        D = self.n_items
        order = np.argsort(-scores, kind="stable")
        z = scores[order] / self.constants.strong_convexity
        s = -np.concatenate([[0.0], np.cumsum(np.minimum(z[:-1] - z[1:], float(D)))])
        mean = np.empty(D)
        mean[order] = np.clip(s - nonincreasing_fit(s - np.arange(D, 0.0, -1.0)), 1.0, float(D))
        return mean

    def nearest(self, mean: FloatArray) -> FloatArray:
        result = np.empty(self.n_items)
        result[np.argsort(mean, kind="stable")] = np.arange(1.0, self.n_items + 1.0)
        return result

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Assign D, …, 1 in the order of the mean, then apply random swaps."""
        order, swaps = self._swaps(mean)
        points = np.arange(self.n_items, 0.0, -1.0)
        _swap(points, swaps, uniforms)
        result = np.empty(self.n_items)
        result[order] = points
        return result

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the product over the swaps: each settles a place, so only one sequence of them yields this output."""
        order, swaps = self._swaps(mean)
        return _swap_probability(np.arange(self.n_items, 0.0, -1.0), swaps, np.ascontiguousarray(output[order]))

    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """Return ⟨y, y - y'⟩/M."""
        return float(truth @ (truth - output)) * 6.0 / (self.n_items * (self.n_items**2 - 1.0))

    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return the SparseMAP loss."""
        return quadratic_surrogate(scores, self.decode(scores), truth, self.constants.strong_convexity)

    def _swaps(self, mean: FloatArray) -> tuple[IntArray, tuple[IntArray, IntArray, FloatArray]]:
        order = np.argsort(-mean, kind="stable")
        return order, transfers(mean[order], _SLACK * self.n_items)


@compiled
def transfers(mean: FloatArray, slack: float) -> tuple[IntArray, IntArray, FloatArray]:
    """Return at most D - 1 random swaps that turn D, …, 1 into a random vertex with this mean (D,), descending.

    Each swap has the place that it settles, the other place, and a probability.
    """
    D = len(mean)
    w = np.arange(D, 0.0, -1.0)
    settled, other, probabilities = np.zeros(D, np.int64), np.zeros(D, np.int64), np.zeros(D)
    count = 0
    while count < D - 1:
        j = D - 1
        while j >= 0 and w[j] <= mean[j] + slack:
            j -= 1
        k = j + 1
        while k < D and w[k] >= mean[k] - slack:
            k += 1
        if j < 0 or k == D:
            break
        surplus, lack = w[j] - mean[j], mean[k] - w[k]
        probabilities[count] = min(surplus, lack) / (w[j] - w[k])
        if surplus <= lack:
            settled[count], other[count] = j, k
            w[j], w[k] = mean[j], w[k] + surplus
        else:
            settled[count], other[count] = k, j
            w[j], w[k] = w[j] - lack, mean[k]
        count += 1
    return settled[:count], other[:count], probabilities[:count]


@compiled
def _swap(points: FloatArray, swaps: tuple[IntArray, IntArray, FloatArray], uniforms: FloatArray) -> None:
    for i in range(len(swaps[0])):
        if uniforms[i] < swaps[2][i]:
            j, k = swaps[0][i], swaps[1][i]
            points[j], points[k] = points[k], points[j]


@compiled
def _swap_probability(points: FloatArray, swaps: tuple[IntArray, IntArray, FloatArray], output: FloatArray) -> float:
    """Return the probability that the swaps turn points (D,) into output (D,)."""
    probability = 1.0
    for i in range(len(swaps[0])):
        j, k = swaps[0][i], swaps[1][i]
        if points[j] == output[j]:
            probability *= 1.0 - swaps[2][i]
        else:
            probability *= swaps[2][i]
            points[j], points[k] = points[k], points[j]
    for i in range(len(points)):
        if points[i] != output[i]:
            return 0.0
    return probability

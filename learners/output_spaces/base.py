"""The interface of an output space: its vertices, which are the possible answers, and the constants of the theory.

A space has no state. Scores θ, means ŷ and outputs y are vectors of `dimension` float64 numbers; scores are finite, and
uniform numbers in [0, 1). `decode` maps scores to the mean ŷ, a point of the convex hull of the vertices, by
regularized maximization. `randomize` returns the vertex y* nearest to ŷ or, with probability
p = min(1, 2‖y* - ŷ‖/ν), a random vertex ỹ with E[ỹ] = ŷ. `decode` may append numbers to ŷ if the law of ỹ depends on
them too; the other methods take all of its numbers as `mean`.
Lemma 3.1: the expected target loss is at most 4γ/(λν) times the Fenchel-Young loss of the scores.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import FloatArray
from learners.hyperparameters import rounded_up


class Constants(NamedTuple):
    """The constants of a space, in its norm ‖·‖: ℓ1 or ℓ2."""

    gamma: float  # the target loss is γ-Lipschitz: L(y'; y) <= γ ‖y' - y‖
    nu: float  # the least distance between two vertices
    strong_convexity: float  # λ of the regularizer Ψ
    kappa: float  # ‖·‖_2 <= κ ‖·‖
    diameter: float  # the greatest distance between two vertices

    @property
    def loss_share(self) -> float:
        """4γ/(λν), 1 - a in the theorems: the expected target loss is at most this share of the surrogate."""
        return 4.0 * self.gamma / (self.strong_convexity * self.nu)


class OutputSpace(ABC):
    """The interface of every output space. Raises `ValueError` if 4γ/(λν) is not less than 1."""

    norm_order: ClassVar[int]  # 1 or 2, the norm ‖·‖ of the constants

    def __post_init__(self) -> None:
        share = self.constants.loss_share
        if share >= 1.0:
            least = share * self.weight
            reason = f"4γ/(λν) is {share:.4g}, but must be less than 1"
            raise ValueError(f"the regularization is too weak: {reason}; use a value of at least {rounded_up(least)}")

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, the length of scores, means and outputs."""

    @property
    def mean_size(self) -> int:
        """The length of the vectors that `decode` returns: D, or more if the law of ỹ depends on more than ŷ."""
        return self.dimension

    @property
    @abstractmethod
    def n_uniforms(self) -> int:
        """The number of uniform numbers that one answer consumes."""

    @property
    @abstractmethod
    def constants(self) -> Constants:
        """γ, ν, λ, κ and the diameter."""

    @property
    def weight(self) -> float:
        """The factor of the regularizer that the caller chooses: λ, unless a space overrides this."""
        return self.constants.strong_convexity

    @abstractmethod
    def is_vertex(self, output: FloatArray) -> bool:
        """Check whether a vector (dimension,) is a vertex."""

    @abstractmethod
    def decode(self, scores: FloatArray) -> FloatArray:
        """Return ŷ, the point of the hull that maximizes ⟨θ, y⟩ - Ψ(y)."""

    @abstractmethod
    def nearest(self, mean: FloatArray) -> FloatArray:
        """Return y*, a vertex at the least distance from ŷ."""

    @abstractmethod
    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Return ỹ, a vertex with E[ỹ] = ŷ, from n_uniforms - 1 uniforms."""

    @abstractmethod
    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the exact probability, in [0, 1], that ỹ is this vertex."""

    @abstractmethod
    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """Return L(y'; y) in [0, 1], for any output y' of the hull and a vertex y, the truth.

        It is affine in y', so L(E[y']; y) = E[L(y'; y)].
        """

    @abstractmethod
    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return S(θ; y) = Ψ*(θ) + Ψ(y) - ⟨θ, y⟩, the Fenchel-Young loss of the scores at a vertex; never negative."""

    @property
    def largest_entry(self) -> float:
        """The largest entry of any vertex; the least entry is not negative."""
        return 1.0

    @property
    def draw_cost(self) -> int:
        """Approximate multiply-adds of decoding the scores and drawing an answer with its probability."""
        return 100 * self.dimension

    @property
    def euclidean_diameter(self) -> float:
        """The greatest ℓ2 distance between two vertices, which are vectors of zeros and ones if the norm is ℓ1."""
        return self.constants.diameter if self.norm_order == 2 else math.sqrt(self.constants.diameter)

    def contains(self, output: FloatArray) -> bool:
        """Check whether an unchecked array, of any shape and content, is a vertex."""
        return output.shape == (self.dimension,) and self.is_vertex(output)

    def distance(self, one: FloatArray, other: FloatArray) -> float:
        """Return ‖one - other‖ in the space's norm."""
        return float(np.linalg.norm(one - other, self.norm_order))

    def mixing(self, mean: FloatArray) -> float:
        """Return p = min(1, 2‖y* - ŷ‖/ν): the share of the answers that are random."""
        return self._mixing(mean, self.nearest(mean))

    def _mixing(self, mean: FloatArray, nearest: FloatArray) -> float:
        return min(1.0, 2.0 * self.distance(nearest, mean[: self.dimension]) / self.constants.nu)

    def randomize(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw an answer, a vertex, around a mean, with n_uniforms uniforms."""
        if uniforms[0] < self.mixing(mean):
            return self.random_vertex(mean, uniforms[1:])
        return self.nearest(mean)

    def sample(self, scores: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw an answer, a vertex, for scores, with n_uniforms uniforms."""
        return self.randomize(self.decode(scores), uniforms)

    def draw(self, mean: FloatArray, uniforms: FloatArray) -> tuple[FloatArray, float]:
        """Draw as `randomize`; return the answer and its exact probability."""
        nearest = self.nearest(mean)
        p = self._mixing(mean, nearest)
        output = self.random_vertex(mean, uniforms[1:]) if uniforms[0] < p else nearest
        return output, (1.0 - p) * np.array_equal(output, nearest) + p * self.vertex_probability(mean, output)

    def probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the exact probability that `randomize` returns this output for this mean; 0 if it is not a vertex."""
        if not self.contains(output):
            return 0.0
        p, is_nearest = self.mixing(mean), bool(np.array_equal(output, self.nearest(mean)))
        return (1.0 - p) * is_nearest + p * self.vertex_probability(mean, output)

    def expected_output(self, mean: FloatArray) -> FloatArray:
        """Return the expectation of the answer around a mean, (D,)."""
        nearest = self.nearest(mean)
        return nearest + self._mixing(mean, nearest) * (mean[: self.dimension] - nearest)

    def expected_loss(self, mean: FloatArray, truth: FloatArray) -> float:
        """Return the expected target loss of the answer around a mean."""
        return self.target_loss(self.expected_output(mean), truth)


def quadratic_surrogate(scores: FloatArray, mean: FloatArray, truth: FloatArray, regularization: float) -> float:
    """Return S for Ψ = (λ/2)‖·‖² as (λ/2)‖y - ŷ‖² + ⟨y - ŷ, λŷ - θ⟩; neither term is negative."""
    excess = truth - mean
    slack = float(excess @ (regularization * mean - scores))
    return regularization / 2.0 * float(excess @ excess) + max(0.0, slack)

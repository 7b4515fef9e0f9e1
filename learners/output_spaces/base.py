"""What an output space is: the vertices that can be answered, and everything the theory needs of them.

A space holds no state. Scores θ, means ŷ and outputs y are all vectors of `dimension` numbers. From scores to
an answer: `decode` regularises and gives the mean ŷ, a point of the vertices' convex hull; `randomize` answers
the vertex y* nearest to ŷ, or, with probability p = min(1, 2‖y* - ŷ‖/ν), a random vertex ỹ with E[ỹ] = ŷ.
Lemma 3.1: its expected target loss is at most 4γ/(λν) times the Fenchel-Young loss of the scores.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import FloatArray


class Constants(NamedTuple):
    """The numbers of a space, in its own norm ‖·‖: ℓ1 or ℓ2."""

    gamma: float  # the target loss is γ-Lipschitz: L(y'; y) <= γ ‖y' - y‖
    nu: float  # the least distance of two vertices
    strong_convexity: float  # λ of the regulariser Ψ
    kappa: float  # ‖·‖_2 <= κ ‖·‖
    diameter: float  # the greatest distance of two vertices

    @property
    def loss_share(self) -> float:
        """4γ/(λν), 1 - a in the theorems: the expected target loss is at most this share of the surrogate."""
        return 4.0 * self.gamma / (self.strong_convexity * self.nu)


class OutputSpace(ABC):
    """The contract of every output space, and what all of them have in common.

    Vectors are (dimension,) float64. Scores are finite. Uniforms are in [0, 1).
    """

    norm_order: ClassVar[int]  # 1 or 2, the norm ‖·‖ of the constants

    def __post_init__(self) -> None:
        """Refuses a regulariser too weak for the theorems, which need 4γ/(λν) < 1."""
        share = self.constants.loss_share
        if share >= 1.0:
            least = share * self.constants.strong_convexity
            reason = f"4γ/(λν) is {share:.4g}, and must be less than 1"
            raise ValueError(f"the regularization is too weak: {reason}; use one above {least:.6g}")

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D, the length of scores, means and outputs."""

    @property
    @abstractmethod
    def n_uniforms(self) -> int:
        """How many uniform numbers one answer takes."""

    @property
    @abstractmethod
    def constants(self) -> Constants:
        """γ, ν, λ, κ and the diameter."""

    @abstractmethod
    def is_vertex(self, output: FloatArray) -> bool:
        """Whether a vector (dimension,) is a vertex."""

    @abstractmethod
    def decode(self, scores: FloatArray) -> FloatArray:
        """ŷ, the point of the hull that maximises ⟨θ, y⟩ - Ψ(y)."""

    @abstractmethod
    def nearest(self, mean: FloatArray) -> FloatArray:
        """y*, a vertex at the least distance from ŷ."""

    @abstractmethod
    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """ỹ, a vertex with E[ỹ] = ŷ, from n_uniforms - 1 uniforms."""

    @abstractmethod
    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """The probability that ỹ is this vertex, exactly, in [0, 1]."""

    @abstractmethod
    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """L(y'; y) in [0, 1], for a vertex y and any y' of the hull; affine in y', so L(E[y']; y) = E[L(y'; y)]."""

    @abstractmethod
    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """S(θ; y) = Ψ*(θ) + Ψ(y) - ⟨θ, y⟩, the Fenchel-Young loss of the scores at a vertex; never negative."""

    @property
    def largest_entry(self) -> float:
        """Of any vertex; the least one is not negative."""
        return 1.0

    @property
    def draw_cost(self) -> int:
        """Multiply-adds of decoding and of an answer with its probability, roughly."""
        return 100 * self.dimension

    @property
    def euclidean_diameter(self) -> float:
        """The greatest ℓ2 distance of two vertices, which are zeros and ones where the norm is ℓ1."""
        return self.constants.diameter if self.norm_order == 2 else math.sqrt(self.constants.diameter)

    def contains(self, output: FloatArray) -> bool:
        """Whether an array of any shape, whatever it holds, is a vertex: the check of truths from outside."""
        return output.shape == (self.dimension,) and self.is_vertex(output)

    def distance(self, one: FloatArray, other: FloatArray) -> float:
        """‖one - other‖ in the space's norm."""
        return float(np.linalg.norm(one - other, self.norm_order))

    def mixing(self, mean: FloatArray) -> float:
        """P = min(1, 2‖y* - ŷ‖/ν): the share of the answers that are random."""
        return min(1.0, 2.0 * self.distance(self.nearest(mean), mean) / self.constants.nu)

    def randomize(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """The answer around a mean, from n_uniforms uniforms: a vertex."""
        if uniforms[0] < self.mixing(mean):
            return self.random_vertex(mean, uniforms[1:])
        return self.nearest(mean)

    def sample(self, scores: FloatArray, uniforms: FloatArray) -> FloatArray:
        """The answer to scores, from n_uniforms uniforms: a vertex."""
        return self.randomize(self.decode(scores), uniforms)

    def probability(self, mean: FloatArray, output: FloatArray) -> float:
        """The probability, exactly, that `randomize` answers this output around this mean; 0 where it is no vertex."""
        if not self.contains(output):
            return 0.0
        p, is_nearest = self.mixing(mean), bool(np.array_equal(output, self.nearest(mean)))
        return (1.0 - p) * is_nearest + p * self.vertex_probability(mean, output)

    def expected_loss(self, mean: FloatArray, truth: FloatArray) -> float:
        """The expected target loss of the answer around a mean."""
        p = self.mixing(mean)
        return (1.0 - p) * self.target_loss(self.nearest(mean), truth) + p * self.target_loss(mean, truth)


def quadratic_surrogate(scores: FloatArray, mean: FloatArray, truth: FloatArray, regularization: float) -> float:
    """S for Ψ = (λ/2)‖·‖², as (λ/2)‖y - ŷ‖² + ⟨y - ŷ, λŷ - θ⟩: two terms that are never negative."""
    excess = truth - mean
    slack = float(excess @ (regularization * mean - scores))
    return regularization / 2.0 * float(excess @ excess) + max(0.0, slack)

"""Multiclass labels: the vertices of the simplex, with the negative entropy as regularizer."""

import math
from typing import Annotated

import numpy as np
import pydantic

from learners.base import FloatArray
from learners.hyperparameters import hyperparameters
from learners.mathematics.exploration import draw_one, leader, softmax
from learners.output_spaces.base import Constants, OutputSpace


@hyperparameters
class Multiclass(OutputSpace):
    """Outputs e_1 … e_K with the zero-one loss; the surrogate is the logistic loss.

    The regularizer is λ times the negative entropy, λ > 1. With λ = 1/ln 2, the default, the surrogate is
    log2 Σ 2^θ_k - θ_y; Sakaue et al. 2024, Theorem 5.1, has scores that are ln 2 times these. Norm ℓ1, ν = 2, γ = 1/2.
    """

    norm_order = 1

    name = "multiclass"
    n_uniforms = 2  # one to mix, one to draw
    n_labels: Annotated[int, pydantic.Field(ge=2, le=1_000_000)]
    """K."""
    regularization: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0 / math.log(2.0)
    """λ, the weight of the negative entropy; greater than 1."""

    @property
    def dimension(self) -> int:
        return self.n_labels

    @property
    def constants(self) -> Constants:
        return Constants(gamma=0.5, nu=2.0, strong_convexity=self.regularization, kappa=1.0, diameter=2.0)

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.isin(output, (0.0, 1.0)).all() and output.sum() == 1.0)

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return softmax(θ/λ)."""
        result = np.empty(self.n_labels)
        softmax(scores / self.regularization, result)
        return result

    def nearest(self, mean: FloatArray) -> FloatArray:
        return _corner(self.n_labels, leader(mean))

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Return the vertex of a label drawn from the softmax."""
        return _corner(self.n_labels, draw_one(mean, uniforms[0])[0])

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the softmax probability of the label."""
        return float(mean @ output)

    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """Return 1 - ⟨y', y⟩, the zero-one loss."""
        return 1.0 - float(output @ truth)

    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return λ ln Σ exp(θ_k/λ) - θ_y."""
        ahead = (scores - scores @ truth) / self.regularization
        top = float(ahead.max())
        return self.regularization * (top + math.log(float(np.exp(ahead - top).sum())))


def _corner(n_labels: int, label: int) -> FloatArray:
    result = np.zeros(n_labels)
    result[label] = 1.0
    return result

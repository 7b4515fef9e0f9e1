"""Vectors of zeros and ones: label sets, and grades on an ordinal scale."""

import math
from typing import Annotated

import numpy as np
import pydantic

from learners.base import FloatArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.output_spaces.base import Constants, OutputSpace, quadratic_surrogate
from learners.output_spaces.isotonic import clipped_fit


class Binary(OutputSpace):
    """Vectors of zeros and ones. Norm ℓ2, regularizer (λ/2)‖y‖²; the loss is the Hamming distance, divided by D."""

    norm_order = 2
    regularization: float | None

    @property
    def constants(self) -> Constants:
        n = self.dimension
        strong_convexity = 8.0 / math.sqrt(n) if self.regularization is None else self.regularization
        return Constants(1.0 / math.sqrt(n), 1.0, strong_convexity, 1.0, math.sqrt(n))

    def nearest(self, mean: FloatArray) -> FloatArray:
        return (mean > 0.5).astype(np.float64)

    def target_loss(self, output: FloatArray, truth: FloatArray) -> float:
        """Return the Hamming loss / D."""
        return float(np.mean(output * (1.0 - 2.0 * truth) + truth))

    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return the SparseMAP loss."""
        return quadratic_surrogate(scores, self.decode(scores), truth, self.constants.strong_convexity)


@hyperparameters
class Multilabel(Binary):
    """Outputs {0, 1}^D: any subset of D labels. λ must be greater than 4/√D."""

    name = "multilabel"
    n_labels: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    """D."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4/√D; `null` for 8/√D."""

    @property
    def dimension(self) -> int:
        return self.n_labels

    @property
    def n_uniforms(self) -> int:
        return 1 + self.n_labels

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.isin(output, (0.0, 1.0)).all())

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return θ/λ, clipped to [0, 1]."""
        return np.clip(scores / self.constants.strong_convexity, 0.0, 1.0)

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Include each label independently, with its entry of ŷ as probability."""
        return (uniforms < mean).astype(np.float64)

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the product of the labels' probabilities."""
        return float(np.prod(np.where(output > 0.5, mean, 1.0 - mean)))


@hyperparameters
class Ordinal(Binary):
    """Outputs 1^m 0^(D-m): a grade m from 0 to D. The loss is the difference of grades / D. λ must exceed 4/√D."""

    name = "ordinal"
    n_uniforms = 2  # one to mix, one to draw
    n_steps: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    """D, the highest grade."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4/√D; `null` for 8/√D."""

    @property
    def dimension(self) -> int:
        return self.n_steps

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.isin(output, (0.0, 1.0)).all() and (np.diff(output) <= 0.0).all())

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return the non-increasing fit of θ/λ, clipped to [0, 1]."""
        mean: FloatArray = scores / self.constants.strong_convexity
        clipped_fit(mean, np.empty(len(mean)), np.empty(len(mean), dtype=np.int64))
        return mean

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw a vertex with one uniform number for all steps."""
        return np.asarray(uniforms[0] < mean, dtype=np.float64)

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return ŷ_m - ŷ_(m+1), with ŷ_0 = 1 and ŷ_(D+1) = 0."""
        edges, grade = np.concatenate([[1.0], mean, [0.0]]), np.count_nonzero(output)
        return float(edges[grade] - edges[grade + 1])

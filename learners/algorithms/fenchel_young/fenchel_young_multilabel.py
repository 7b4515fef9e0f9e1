"""Multilabel classification: answers with any subset of the labels, by Fenchel-Young descent (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024, Appendix C.1, "multilabel classification".
"""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from learners.algorithms.fenchel_young.structured import Drawing
from learners.base import FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.output_spaces.binary import Multilabel


@hyperparameters
class FenchelYoungMultilabel(Drawing):
    """Answers with a set of labels: one score per label, and randomized decoding within the surrogate gap.

    The target loss is the share of labels wrongly included or excluded. The means are ŷ = θ/λ, clipped to [0, 1], of
    the scores θ. The answer is y*, the set of labels with means above 1/2, or, with probability min(1, 2‖y* - ŷ‖), a
    set that includes each label independently with its mean as probability. Before any feedback, the answer is the
    empty set.
    """

    algorithm = "fenchel-young-multilabel"
    answer: ClassVar[Literal["label-set", "ranking"]] = "label-set"
    loss_name = "share of labels wrongly included or excluded"

    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4/√K; `null` for 8/√K."""

    @property
    def constants_named(self) -> str:
        return "a = 1 - 4/(λ√K), b = 2X²/λ"

    @cached_property
    def space(self) -> Multilabel:
        return Multilabel(n_labels=self.problem.n_labels, regularization=self.regularization)

    def vertices(self, labels: IntArray) -> FloatArray:
        return labels.astype(np.float64)

    def rows(self, vertices: FloatArray) -> IntArray:
        return vertices.astype(np.int64)

    def probabilities(self, means: FloatArray) -> FloatArray:
        """Return (1 - p) y* + p ŷ: the probability that each label is in the answer."""
        nearest = (means > 0.5).astype(np.float64)
        p = np.minimum(1.0, 2.0 * np.linalg.norm(nearest - means, axis=1, keepdims=True))
        return np.asarray(nearest + p * (means - nearest))

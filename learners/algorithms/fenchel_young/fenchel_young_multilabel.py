"""Multilabel classification: any subset of the labels as the answer, by Fenchel-Young descent (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024, Appendix C.1, "multilabel classification".
"""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from learners.algorithms.fenchel_young.structured import Drawing
from learners.base import FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.output_spaces import Multilabel


@hyperparameters
class FenchelYoungMultilabel(Drawing):
    """Answers a set of labels: each has a score, and randomizes only as much as the loss pays for.

    The loss is the share of labels that are wrongly in or out. The answer is the labels with mean ŷ over 1/2, or, with
    probability min(1, 2‖y* - ŷ‖), each label by itself with its mean; untaught, the empty set.
    """

    algorithm = "fenchel-young-multilabel"
    answer: ClassVar[Literal["label-set", "ranking"]] = "label-set"
    loss_name = "share of labels wrongly in or out"

    regularization: Magnitude | None = None
    """λ, greater than 4/√K; `null` for 8/√K."""

    @property
    def constants_named(self) -> str:
        """See `Structured.constants_named`."""
        return "a = 1 - 4/(λ√K), b = 2X²/λ"

    @cached_property
    def space(self) -> Multilabel:
        """{0, 1}^K."""
        return Multilabel(n_labels=self.problem.n_labels, regularization=self.regularization)

    def vertices(self, labels: IntArray) -> FloatArray:
        """The rows as they are."""
        return labels.astype(np.float64)

    def rows(self, vertices: FloatArray) -> IntArray:
        """The vertices as they are."""
        return vertices.astype(np.int64)

    def probabilities(self, means: FloatArray) -> FloatArray:
        """(1 - p) y* + p ŷ: the probability of each label to be in the answer."""
        nearest = (means > 0.5).astype(np.float64)
        p = np.minimum(1.0, 2.0 * np.linalg.norm(nearest - means, axis=1, keepdims=True))
        return np.asarray(nearest + p * (means - nearest))

"""Ordinal regression: answers with one of several ordered labels, by Fenchel-Young descent (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024, Appendix C.1, "ordinal regression".
"""

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from learners.algorithms.fenchel_young.structured import Structured
from learners.base import Contexts, Decisions, FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.mathematics.descent import DescentState
from learners.mathematics.exploration import settle_each
from learners.output_spaces import Ordinal


@hyperparameters
class FenchelYoungOrdinal(Structured):
    """Answers with one of K levels, ordered from lowest to highest; an error costs its distance in levels.

    The target loss is |level - truth| / (K - 1). Each of the K - 1 thresholds between levels has a score. Level m, from
    0, is the vector of m ones, then zeros. The answer is y*, the level nearest to the mean ŷ, or, with probability
    min(1, 2‖y* - ŷ‖), a random level whose vector has mean ŷ. Before any feedback, the answer is the lowest level.
    """

    algorithm = "fenchel-young-ordinal"
    answer: ClassVar[Literal["level"]] = "level"
    loss_name = "difference of levels, divided by K - 1,"

    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4/√(K - 1); `null` for 8/√(K - 1)."""

    @property
    def constants_named(self) -> str:
        """See `Structured.constants_named`."""
        return "a = 1 - 4/(λ√(K - 1)), b = 2X²/λ"

    @cached_property
    def space(self) -> Ordinal:
        """The space of vectors 1^m 0^(K-1-m), m from 0 to K - 1."""
        return Ordinal(n_steps=self.problem.n_labels - 1, regularization=self.regularization)

    def vertices(self, labels: IntArray) -> FloatArray:
        """Return as many ones as the level's index, then zeros."""
        return (np.arange(self.problem.n_labels - 1) < labels[:, None]).astype(np.float64)

    def decide_unchecked(self, state: DescentState, contexts: Contexts) -> Decisions:
        """Put 1 - p on the nearest level, and p (ŷ_m - ŷ_(m+1)) on each level m, where ŷ_0 = 1 and ŷ_K = 0."""
        means = self.means(state, contexts)
        edges = np.pad(means, ((0, 0), (1, 0)), constant_values=1.0)
        steps = edges - np.pad(means, ((0, 0), (0, 1)))
        grades = np.count_nonzero(means > 0.5, axis=1)
        p = np.minimum(1.0, 2.0 * np.linalg.norm(self.vertices(grades) - means, axis=1))
        distributions = p[:, None] * steps
        distributions[np.arange(len(means)), grades] += 1.0 - p
        settle_each(distributions)
        return Decisions(distributions, np.empty((len(means), 0)) if self.recomputes else means)

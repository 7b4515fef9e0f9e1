"""The multiclass Perceptron: full information, no exploration, the baseline of every plot.

Crammer and Singer's construction as Beygelzimer, Orabona and Zhang 2017 state it, Theorem 1.
"""

from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, Rounds
from learners.checked_learner import FullInformation
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors
from learners.mathematics.exploration import lead
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import add_to_label, score_row


class PerceptronState(NamedTuple):
    """One weight vector for each label."""

    weights: LabelVectors
    rounds: Count  # rounds folded so far


@hyperparameters
class Perceptron(FullInformation, CompiledLearner[PerceptronState]):
    """Answers the leader of the scores; where it is wrong, moves the two weight vectors by the context.

    Nothing is drawn: every propensity is 1. Late feedback is applied to the leader as predicted, so the
    state does not depend on the order of arrival.
    """

    algorithm = "perceptron"
    smaller = "fewer features"
    state_type = PerceptronState

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return (
            "Mistakes are at most L + 2X²‖U‖² + X‖U‖ √(2L), L the hinge loss of any U, whatever the rounds "
            f"(Beygelzimer, Orabona and Zhang 2017, Theorem 1). {AT_ONCE}"
        )

    @property
    def evidence_size(self) -> int:
        """The label that led."""
        return 1

    def fold_cost(self, nonzeros: int) -> int:
        """Two labels."""
        return 2 * nonzeros

    @property
    def kernels(self) -> Kernels:
        """Answers the leader, which is the evidence too; learns from the mistakes."""
        return Kernels((), _decide, _fold)


@compiled
def _decide(
    _: tuple[()], state: PerceptronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    s = np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        evidence[i, 0] = lead(s, 0.0, distributions[i])


@compiled
def _fold(_: tuple[()], state: PerceptronState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        led, y = int(rounds.evidence[t, 0]), rounds.true_labels[t]
        if y >= 0 and y != led and 0 <= led < state.weights.shape[1]:  # an index from outside must not leave the array
            indices, values = row(rounds.contexts, t)
            add_to_label(state.weights, y, 1.0, indices, values)
            add_to_label(state.weights, led, -1.0, indices, values)
        state.rounds[()] += 1

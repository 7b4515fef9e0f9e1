"""The multiclass Perceptron, a baseline: it needs true labels and does not explore.

Crammer and Singer's construction, as stated by Beygelzimer, Orabona and Zhang 2017, Theorem 1.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, place_of, row
from learners.layouts import Count, LabelVectors
from learners.learner import CompiledLearner, FullInformation
from learners.mathematics.exploration import lead_eligible
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import add_to_label, score_row


class PerceptronState(NamedTuple):
    """One weight vector per label."""

    weights: LabelVectors
    rounds: Count  # rounds folded so far


@hyperparameters
class Perceptron(FullInformation, CompiledLearner[PerceptronState]):
    """Answers with the highest-scoring label, the leader; after a mistake, moves two weight vectors by the context.

    Every propensity is 1. A mistake adds the context to the true label's weights and subtracts it from the leader's.
    Late feedback uses the leader at prediction time; the order of arrival affects the state only by rounding.
    """

    algorithm = "perceptron"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = PerceptronState
    evidence_size = 1  # the leader at prediction time
    linear = True

    @property
    def guarantee(self) -> str:
        return (
            "For any U, any q ≥ 1 and any sequence of rounds, the number of mistakes M is at most "
            "L_q^(1/q) M^(1 - 1/q) + X‖U‖ √(2M), where L_q is the sum of the q-th powers of U's hinge losses. So M is "
            "at most L_1 + 2X²‖U‖² + X‖U‖ √(2 L_1), and at most L_2 + 2X²‖U‖² + 2X‖U‖ √(2 L_2) (Beygelzimer, Orabona "
            f"and Zhang 2017, Theorem 1). {AT_ONCE}"
        )

    def fold_cost(self, nonzeros: int) -> int:
        return 2 * nonzeros

    @property
    def kernels(self) -> Kernels:
        return Kernels((), _decide, _fold)


@compiled
def _decide(
    _: tuple[()],
    state: PerceptronState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    s = np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        evidence[i, 0] = lead_eligible(eligible, i, s, 0.0, distributions[i])


@compiled
def _fold(_: tuple[()], state: PerceptronState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        led, y = int(rounds.evidence[t, 0]), rounds.true_labels[t]
        known = y >= 0 and place_of(rounds.eligible, t, y) >= 0
        if known and y != led and 0 <= led < state.weights.shape[1]:  # corrupt evidence must not index beyond the array
            indices, values = row(rounds.contexts, t)
            add_to_label(state.weights, y, 1.0, indices, values)
            add_to_label(state.weights, led, -1.0, indices, values)
        state.rounds[()] += 1

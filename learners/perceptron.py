"""The multiclass Perceptron: full information, no exploration, the baseline of every plot.

Crammer and Singer's construction as Beygelzimer, Orabona and Zhang 2017 state it, Theorem 1.
"""

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from learners.base import (
    Contexts,
    Count,
    Decisions,
    FloatArray,
    Layout,
    Problem,
    Rounds,
    hyperparameters,
    zero_state,
)
from learners.exploration import leaders, mixtures
from learners.kernels import compiled, row
from learners.linear_algebra import add_to_label, scores


class PerceptronState(NamedTuple):
    """One weight vector for each label."""

    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]
    rounds: Count  # rounds folded so far


@hyperparameters
class Perceptron:
    """Answers the leader of the scores; where it is wrong, moves the two weight vectors by the context.

    Nothing is drawn: every propensity is 1. Late feedback is applied to the leader as predicted, so the
    state does not depend on the order of arrival.
    """

    algorithm: ClassVar[str] = "perceptron"
    guarantee: ClassVar[str] = (
        "Mistakes at most L + 2X²‖U‖² + X‖U‖ √(2L), L the hinge loss of any U (Beygelzimer, Orabona and Zhang "
        "2017, Theorem 1)."
    )
    smaller: ClassVar[str] = "fewer features"
    state_type: ClassVar[type[Any]] = PerceptronState

    problem: Problem

    @property
    def evidence_size(self) -> int:
        """The label that led."""
        return 1

    @property
    def needs_true_label(self) -> bool:
        """Always."""
        return True

    @property
    def fold_cost(self) -> int:
        """Two labels."""
        return 2 * self.problem.n_features

    def init(self) -> PerceptronState:
        """Zero weights."""
        state: PerceptronState = zero_state(self)
        return state

    def decide(self, state: PerceptronState, contexts: Contexts) -> Decisions:
        """1 on the leader, which is the evidence too."""
        s = scores(state.weights, contexts)
        tops = leaders(s)
        return Decisions(mixtures(tops, 0.0, s.shape[1]), tops.astype(np.float64)[:, None])

    def fold(self, state: PerceptronState, rounds: Rounds) -> PerceptronState:
        """Learns from the mistakes."""
        _fold(state, rounds)
        return state


@compiled
def _fold(state: PerceptronState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        led, y = int(rounds.evidence[t, 0]), rounds.true_labels[t]
        if y != led and 0 <= led < state.weights.shape[1]:  # an index from outside must not leave the array
            indices, values = row(rounds.contexts, t)
            add_to_label(state.weights, y, 1.0, indices, values)
            add_to_label(state.weights, led, -1.0, indices, values)
        state.rounds[()] += 1

"""Banditron: the Perceptron under bandit feedback.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

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


class BanditronState(NamedTuple):
    """One weight vector for each label."""

    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class Banditron:
    """Answers the leader of the scores, with a share γ of uniform exploration; learns in every round.

    Each round subtracts the context from the weights of the label that led, and a correct one adds it to
    the label served, divided by its propensity: in expectation the Perceptron's update. Late feedback is applied
    to the leader as predicted, so the state does not depend on the order of arrival.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range.
    """

    algorithm: ClassVar[str] = "banditron"
    guarantee: ClassVar[str] = (
        "Expected mistakes exceed the hinge loss of any U by O(T^(2/3)), by O(√T) where it is zero (Kakade, "
        "Shalev-Shwartz and Tewari 2008)."
    )
    smaller: ClassVar[str] = "fewer features"
    state_type: ClassVar[type[Any]] = BanditronState

    problem: Problem
    exploration: Literal["anytime"] | Annotated[float, pydantic.Field(ge=1e-6, le=1)] = 0.05
    """γ, or `anytime` for γ_t = min(1, (c/t)^(1/3))."""
    anytime_constant: Annotated[float, pydantic.Field(gt=0, le=1e12)] = 1.0
    """c of the anytime schedule."""
    least_exploration: Annotated[float, pydantic.Field(ge=1e-6, le=1)] = 1e-3
    """A floor under the anytime γ_t: one over it, times K, bounds the weight of a round."""

    @property
    def evidence_size(self) -> int:
        """The label that led."""
        return 1

    @property
    def needs_true_label(self) -> bool:
        """The bit is enough."""
        return False

    @property
    def fold_cost(self) -> int:
        """Two labels."""
        return 2 * self.problem.n_features

    def init(self) -> BanditronState:
        """Zero weights."""
        state: BanditronState = zero_state(self)
        return state

    def decide(self, state: BanditronState, contexts: Contexts) -> Decisions:
        """(1 - γ) e_ŷ + (γ/K) 1; the evidence is ŷ."""
        s = scores(state.weights, contexts)
        tops = leaders(s)
        return Decisions(mixtures(tops, self._rate(state), s.shape[1]), tops.astype(np.float64)[:, None])

    def fold(self, state: BanditronState, rounds: Rounds) -> BanditronState:
        """Learns from every round."""
        _fold(state, rounds)
        return state

    def _rate(self, state: BanditronState) -> float:
        if not isinstance(self.exploration, str):
            return self.exploration
        rate = (self.anytime_constant / (state.rounds.item() + 1)) ** (1 / 3)
        return float(min(1.0, max(self.least_exploration, rate)))


@compiled
def _fold(state: BanditronState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        led = int(rounds.evidence[t, 0])
        if 0 <= led < state.weights.shape[1]:  # an index from outside must not leave the array
            add_to_label(state.weights, led, -1.0, indices, values)
        if rounds.correct[t]:
            add_to_label(state.weights, rounds.labels[t], 1.0 / rounds.propensities[t], indices, values)
        state.rounds[()] += 1

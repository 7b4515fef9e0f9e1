"""Banditron: the Perceptron under bandit feedback.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008.
"""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.base import BoolArray, Contexts, FloatArray, Rounds
from learners.hyperparameters import ExplorationRate, TheoremExploration, hyperparameters
from learners.kernels import Kernels, compiled, label_at, narrow, row
from learners.layouts import Count, LabelVectors
from learners.learner import CompiledLearner, Delayed, DelayedUpdate
from learners.mathematics.exploration import Schedule, lead_eligible, leader, scheduled, scheduled_rate
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import add_to_label, score_row


class BanditronState(NamedTuple):
    """One weight vector per label."""

    weights: LabelVectors
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    exploration: Schedule
    as_of_prediction: bool


@hyperparameters
class Banditron(Delayed, CompiledLearner[BanditronState]):
    """Answers with the highest-scoring label, the leader, with a share γ of uniform exploration; always updates.

    Each round subtracts the context from the leader's weights. A correct answer adds the context, divided by the
    propensity, to the served label's weights. In expectation, this is the Perceptron's update. With
    `as_of_prediction`, late feedback uses the leader at prediction time, and the order of arrival affects the state
    only by rounding.
    """

    algorithm = "banditron"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = BanditronState
    linear = True

    exploration: TheoremExploration = "anytime"
    """γ, `anytime` for γ_t = min(1, √(K/t)), or `theorem` for min(1, (c/t)^(1/3))."""
    theorem_constant: Annotated[float, pydantic.Field(gt=0, le=1e12)] = 1.0
    """c of the schedule `theorem`."""
    least_exploration: ExplorationRate = 1e-3
    """A lower bound on a falling γ_t; importance weights are at most K divided by it."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        rate = f"γ = {self.exploration:g}" if not isinstance(self.exploration, str) else "γ_t falls"
        return (
            "Expected mistakes exceed the hinge loss L of any U by at most Σ γ_t + 3 max(K C/γ_T, √(C Σ γ_t)) + "
            f"√(K C L/γ_T) after T rounds fixed in advance, where C = 2X²‖U‖² and {rate} (Kakade, Shalev-Shwartz and "
            f"Tewari 2008, whose proof for a fixed γ covers every non-increasing γ_t). {AT_ONCE}"
        )

    @property
    def evidence_size(self) -> int:
        return 1 if self.as_of_prediction else 0

    def fold_cost(self, nonzeros: int) -> int:
        return (2 if self.evidence_size else 2 + self.problem.n_labels) * nonzeros

    @property
    def kernels(self) -> Kernels:
        return Kernels(_Parameters(_schedule(self), self.evidence_size > 0), _decide, _fold)


def _schedule(learner: Banditron) -> Schedule:
    if learner.exploration == "theorem":
        return Schedule(learner.theorem_constant, 1 / 3, learner.least_exploration)
    return scheduled(learner.exploration, learner.problem.n_labels, learner.least_exploration)


@compiled
def _decide(
    parameters: _Parameters,
    state: BanditronState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    rate, s = scheduled_rate(parameters.exploration, state.rounds.item()), np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        led = lead_eligible(eligible, i, s, rate, distributions[i])
        if parameters.as_of_prediction:
            evidence[i, 0] = led


@compiled
def _fold(parameters: _Parameters, state: BanditronState, rounds: Rounds) -> None:
    s = np.empty(state.weights.shape[1])
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.as_of_prediction:
            led = int(rounds.evidence[t, 0])
        else:
            score_row(state.weights, rounds.contexts, t, s)
            led = label_at(rounds.eligible, t, leader(s[: narrow(rounds.eligible, t, s)]))
        if 0 <= led < state.weights.shape[1]:  # corrupt evidence must not index beyond the array
            add_to_label(state.weights, led, -1.0, indices, values)
        if rounds.correct[t]:
            add_to_label(state.weights, rounds.labels[t], 1.0 / rounds.propensities[t], indices, values)
        state.rounds[()] += 1

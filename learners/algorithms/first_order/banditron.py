"""Banditron: the Perceptron under bandit feedback.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008.
"""

from typing import Annotated, NamedTuple

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, Rounds
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import ExplorationRate, TheoremExploration, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors
from learners.mathematics.delayed import Delayed, DelayedUpdate
from learners.mathematics.exploration import Schedule, lead, leader, scheduled, scheduled_rate
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import add_to_label, score_row


class BanditronState(NamedTuple):
    """One weight vector for each label."""

    weights: LabelVectors
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    """The hyperparameters as the kernels want them."""

    exploration: Schedule
    as_of_prediction: bool


@hyperparameters
class Banditron(Delayed, CompiledLearner[BanditronState]):
    """Answers the leader of the scores, with a share γ of uniform exploration; learns in every round.

    Each round subtracts the context from the weights of the label that led, and a correct one adds it to
    the label served, divided by its propensity: in expectation the Perceptron's update. Where late feedback is
    applied to the leader as predicted, the state does not depend on the order of arrival.
    """

    algorithm = "banditron"
    smaller = "fewer features"
    state_type = BanditronState

    exploration: TheoremExploration = "anytime"
    """γ, `anytime` for γ_t = min(1, √(K/t)), or `theorem` for min(1, (c/t)^(1/3))."""
    theorem_constant: Annotated[float, pydantic.Field(gt=0, le=1e12)] = 1.0
    """c of the theorem's schedule."""
    least_exploration: ExplorationRate = 1e-3
    """A floor under a falling γ_t: one over it, times K, bounds the weight of a round."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        rate = f"γ = {self.exploration:g}" if not isinstance(self.exploration, str) else "γ_t falling"
        return (
            "Expected mistakes exceed the hinge loss L of any U by at most Σ γ_t + 3 max(K C/γ_T, √(C Σ γ_t)) + "
            f"√(K C L/γ_T) after T rounds fixed beforehand, C = 2X²‖U‖², {rate} (Kakade, Shalev-Shwartz and Tewari "
            f"2008, whose proof for a fixed γ covers every γ_t that does not rise). {AT_ONCE}"
        )

    @property
    def evidence_size(self) -> int:
        """The label that led, or nothing where it is recomputed."""
        return 1 if self.as_of_prediction else 0

    def fold_cost(self, nonzeros: int) -> int:
        """Two labels, and the scores where they are recomputed."""
        return (2 if self.evidence_size else 2 + self.problem.n_labels) * nonzeros

    @property
    def kernels(self) -> Kernels:
        """Answers (1 - γ) e_ŷ + (γ/K) 1, the evidence being ŷ; learns from every round."""
        return Kernels(_Parameters(_schedule(self), self.evidence_size > 0), _decide, _fold)


def _schedule(learner: Banditron) -> Schedule:
    if learner.exploration == "theorem":
        return Schedule(learner.theorem_constant, 1 / 3, learner.least_exploration)
    return scheduled(learner.exploration, learner.problem.n_labels, learner.least_exploration)


@compiled
def _decide(
    parameters: _Parameters, state: BanditronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    rate, s = scheduled_rate(parameters.exploration, state.rounds.item()), np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        led = lead(s, rate, distributions[i])
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
            led = leader(s)
        if 0 <= led < state.weights.shape[1]:  # an index from outside must not leave the array
            add_to_label(state.weights, led, -1.0, indices, values)
        if rounds.correct[t]:
            add_to_label(state.weights, rounds.labels[t], 1.0 / rounds.propensities[t], indices, values)
        state.rounds[()] += 1

"""Banditron: the Perceptron under bandit feedback.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.base import (
    Contexts,
    Count,
    FloatArray,
    Layout,
    Problem,
    Rounds,
    hyperparameters,
)
from learners.compiled_learner import CompiledLearner
from learners.exploration import Schedule, lead, scheduled, scheduled_rate
from learners.kernels import Kernels, compiled, row
from learners.linear_algebra import add_to_label, score_row


class BanditronState(NamedTuple):
    """One weight vector for each label."""

    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class Banditron(CompiledLearner[BanditronState]):
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
    exploration: Literal["anytime", "theorem"] | Annotated[float, pydantic.Field(ge=1e-6, le=1)] = "anytime"
    """γ, `anytime` for γ_t = min(1, √(K/t)), or `theorem` for min(1, (c/t)^(1/3))."""
    theorem_constant: Annotated[float, pydantic.Field(gt=0, le=1e12)] = 1.0
    """c of the theorem's schedule."""
    least_exploration: Annotated[float, pydantic.Field(ge=1e-6, le=1)] = 1e-3
    """A floor under a falling γ_t: one over it, times K, bounds the weight of a round."""

    @property
    def evidence_size(self) -> int:
        """The label that led."""
        return 1

    @property
    def fold_cost(self) -> int:
        """Two labels."""
        return 2 * self.problem.n_features

    @property
    def kernels(self) -> Kernels:
        """Answers (1 - γ) e_ŷ + (γ/K) 1, the evidence being ŷ; learns from every round."""
        return Kernels(_schedule(self), _decide, _fold)


def _schedule(learner: Banditron) -> Schedule:
    if learner.exploration == "theorem":
        return Schedule(learner.theorem_constant, 1 / 3, learner.least_exploration)
    return scheduled(learner.exploration, learner.problem.n_labels, learner.least_exploration)


@compiled
def _decide(
    schedule: Schedule, state: BanditronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    rate, s = scheduled_rate(schedule, state.rounds.item()), np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        evidence[i, 0] = lead(s, rate, distributions[i])


@compiled
def _fold(_: Schedule, state: BanditronState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        led = int(rounds.evidence[t, 0])
        if 0 <= led < state.weights.shape[1]:  # an index from outside must not leave the array
            add_to_label(state.weights, led, -1.0, indices, values)
        if rounds.correct[t]:
            add_to_label(state.weights, rounds.labels[t], 1.0 / rounds.propensities[t], indices, values)
        state.rounds[()] += 1

"""Newtron: an online Newton step on the logistic loss under bandit feedback.

Elad Hazan and Satyen Kale, "Newtron: an Efficient Bandit Algorithm for Online Multiclass Prediction",
NIPS 2011, Algorithm 1, in the form that `learners.algorithms.second_order.pnewtron` describes.
"""

from typing import NamedTuple

import numpy as np

from learners.algorithms.second_order.pnewtron import Newtonian, Parameters, ball_of, gradient_estimate, inner
from learners.base import BoolArray, Contexts, FloatArray, Rounds
from learners.hyperparameters import hyperparameters, refusal
from learners.kernels import Kernels, compiled, narrow, place_of, row, widen
from learners.layouts import Count, LabelVectors, Triangle, zero_state
from learners.learner import DelayedUpdate
from learners.mathematics.exploration import scheduled_rate, soften
from learners.mathematics.guarantees import uncovered
from learners.mathematics.linear_algebra import add_outer, ball_minimizer, packed_identity, packed_rank_one, score_row

_LARGEST_CURVATURE = 1e9  # β D X²; beyond it the full matrix loses precision


class NewtronState(NamedTuple):
    """The state; the rows of A are ordered by label, then feature."""

    matrix: Triangle  # A, n by n for n = K·d, a packed lower triangle
    linear: LabelVectors  # b
    weights: LabelVectors  # W', a function of A and b
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class Newtron(Newtonian[NewtronState]):
    """Newtron with its full matrix: (K·d)²/2 numbers of memory, O((K·d)²) time per round, O((K·d)³) per fold.

    The distribution is p' = (1 - γ) softmax(α W x) + (γ/K) 1; every round updates. With `as_of_prediction`, late
    feedback takes the gradient at the scores of the prediction, and the order of arrival affects the state only by
    rounding; with `recompute`, every round takes O((K·d)³). Raises `pydantic.ValidationError` if a hyperparameter is
    out of range, or if β D X² exceeds 1e9.
    """

    algorithm = "newtron"
    smaller = "pnewtron"
    state_type = NewtronState
    linear = True

    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        if self.beta * ball_of(self) * self.problem.norm_bound**2 > _LARGEST_CURVATURE:
            raise refusal(
                "radius", "beta times radius times the squared norm bound of the contexts must be at most 1e9"
            )

    @property
    def guarantee(self) -> str:
        return uncovered(
            "the regret bounds of Hazan and Kale (2011) require β and γ as functions of α, D, X and K; "
            "here both are set freely",
            "folklore-bandit with a fixed exploration",
        )

    def fold_cost(self, _: int) -> int:
        n = self.problem.n_labels * self.problem.n_features
        return n * n if self.evidence_size else n * n + n**3

    @property
    def fold_overhead(self) -> int:
        n = self.problem.n_labels * self.problem.n_features
        return n**3 if self.evidence_size else 0

    @property
    def kernels(self) -> Kernels:
        return Kernels(self.parameters(projected=True), _decide, _fold)

    def init(self) -> NewtronState:
        state: NewtronState = zero_state(self)
        packed_identity(state.matrix, 1.0 / ball_of(self), self.problem.n_labels * self.problem.n_features)
        return state


@compiled
def _decide(
    parameters: Parameters,
    state: NewtronState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    rate, s = scheduled_rate(parameters.exploration, state.rounds.item()), np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        n = narrow(eligible, i, s)
        soften(s[:n], parameters.alpha, rate, distributions[i][:n])
        widen(eligible, i, distributions[i])
        if parameters.as_of_prediction:
            evidence[i] = s
            widen(eligible, i, evidence[i])


@compiled
def _fold(parameters: Parameters, state: NewtronState, rounds: Rounds) -> None:
    if len(rounds.labels) == 0:
        return
    alpha, beta = parameters.alpha, parameters.beta
    d, K = state.weights.shape
    s, c, G = np.empty(K), np.empty(K), np.zeros(K * d)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.as_of_prediction:
            s[:] = rounds.evidence[t]
        else:
            score_row(state.weights, rounds.contexts, t, s)
        n, place = narrow(rounds.eligible, t, s), place_of(rounds.eligible, t, rounds.labels[t])
        kappa = gradient_estimate(alpha, s[:n], place, rounds.correct[t], rounds.propensities[t], c[:n])
        known = inner(c[:n], s[:n])
        widen(rounds.eligible, t, c)
        G[:] = 0.0
        for position in range(len(values)):
            for k in range(K):
                G[k * d + indices[position]] = c[k] * values[position]
        packed_rank_one(state.matrix, G, kappa * beta)
        add_outer(state.linear, (1.0 - kappa * beta * known) * c, indices, values)
        state.rounds[()] += 1
        if not parameters.as_of_prediction:
            _minimize(parameters.radius, state)
    if parameters.as_of_prediction:
        _minimize(parameters.radius, state)


@compiled
def _minimize(radius: float, state: NewtronState) -> None:
    """Set W' = argmin ½ w'Aw + b'w in the ball."""
    d, K = state.weights.shape
    result = np.empty(K * d)
    ball_minimizer(state.matrix, np.ascontiguousarray(state.linear.T).ravel(), radius, 1.0 / radius, result)
    state.weights[:] = result.reshape(K, d).T

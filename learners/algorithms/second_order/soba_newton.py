"""Algorithm 2 of the SOBA paper with the Online Newton Step as its online learner.

Beygelzimer, Orabona, Zhang, "Efficient Online Bandit Multiclass Learning with Õ(√T) Regret", ICML 2017,
Algorithm 2; Hazan, Agarwal, Kale, "Logarithmic Regret Algorithms for Online Convex Optimization", 2007. The
loss of a round is l(m) = 1 - 2m/(2-η) + η m²/(2-η) at the margin m, and is (γ/K)(η/32)-exp-concave.
"""

from typing import Annotated, NamedTuple

import numpy as np
import pydantic

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.hyperparameters import ExplorationRate, Magnitude, hyperparameters, refusal
from learners.kernels import Kernels, compiled, row, widen
from learners.layouts import Count, LabelVectors, Triangle, zero_state
from learners.learner import CompiledLearner
from learners.mathematics.exploration import lead_eligible, leading_rival
from learners.mathematics.guarantees import AT_ONCE, uncovered
from learners.mathematics.linear_algebra import (
    ball_minimizer,
    packed_identity,
    packed_product,
    packed_rank_one,
    score_row,
)


class SobaNewtonState(NamedTuple):
    """The state; the rows of A are ordered by label, then feature."""

    matrix: Triangle  # A, n by n for n = K·d, a packed lower triangle
    weights: LabelVectors  # W, in the ball
    rounds: Count  # rounds folded so far, t - 1
    updates: Count  # rounds that moved W


class _Parameters(NamedTuple):
    exploration: float
    eta: float
    radius: float
    beta: float
    epsilon: float


@hyperparameters
class SobaNewton(CompiledLearner[SobaNewtonState]):
    """SOBA's loss with Online Newton Steps in a ball: (K·d)² / 2 numbers, O((K·d)³) per update.

    Answers with the highest-scoring label, the leader, with a share γ of uniform exploration. Learns only if the answer
    was right and the leader wrong, so updates are rare. Late feedback uses the gradient at the scores recorded with
    the prediction, divided by the stored propensity. Raises `pydantic.ValidationError` if a hyperparameter is out of
    range, or if η exceeds 1/max(2 X D, 1).
    """

    algorithm = "soba-newton"
    smaller = "soba-diagonal"
    state_type = SobaNewtonState
    linear = True

    exploration: ExplorationRate = 0.05
    """γ, the share of uniform exploration."""
    radius: Magnitude = 1.0
    """D: weights are projected onto the Frobenius ball of this radius."""
    eta: Annotated[float, pydantic.Field(ge=1e-12, le=1)] | None = None
    """η, which interpolates the loss between hinge (0) and squared hinge (1). `null`: the largest, 1/max(2 X D, 1)."""
    beta: Annotated[float, pydantic.Field(ge=1e-30, le=1e6)] | None = None
    """β, the reciprocal of the step. `null`: the theorem's β, whose steps are tiny."""
    epsilon: Annotated[float, pydantic.Field(ge=1e-12, le=1e15)] | None = None
    """ε: A starts as ε·I. `null`: the theorem's 1/(4 β² D²)."""

    def __post_init__(self) -> None:
        if self.eta is not None and self.eta > self.largest_eta * (1 + 1e-12):
            raise refusal("eta", f"must be at most 1/max(2 X D, 1) = {self.largest_eta}")

    @property
    def guarantee(self) -> str:
        if self.beta is not None or self.epsilon is not None:
            return uncovered("beta or epsilon differs from the theorem's value", "both null")
        return (
            "Expected mistakes exceed the η-loss of any U with ‖U‖ ≤ D by at most 5 (1/α + 2GD) K d ln T + γT after "
            "T rounds, where α = γη/(32K) and G = 16XK/γ (Beygelzimer, Orabona and Zhang 2017, Algorithm 2; Hazan, "
            f"Agarwal and Kale 2007). {AT_ONCE}"
        )

    @property
    def largest_eta(self) -> float:
        """The largest η that the theorem allows: 1/max(2 X D, 1)."""
        return 1.0 / max(2.0 * self.problem.norm_bound * self.radius, 1.0)

    def fold_cost(self, _: int) -> int:
        n = self.problem.n_labels * self.problem.n_features
        return n * n * (n + 1)

    @property
    def kernels(self) -> Kernels:
        return Kernels(_parameters(self), _decide, _fold)

    def init(self) -> SobaNewtonState:
        state: SobaNewtonState = zero_state(self)
        packed_identity(state.matrix, _parameters(self).epsilon, self.problem.n_labels * self.problem.n_features)
        return state


def _parameters(learner: SobaNewton) -> _Parameters:
    """Return the constants of the Online Newton Step, with G = 16 X K / γ as the bound on gradient norms."""
    K, X, gamma, D = learner.problem.n_labels, learner.problem.norm_bound, learner.exploration, learner.radius
    eta = learner.largest_eta if learner.eta is None else learner.eta
    alpha, G = gamma / K * eta / 32.0, 16.0 * X * K / gamma
    beta = 0.5 * min(1.0 / (8.0 * G * D), alpha) if learner.beta is None else learner.beta
    epsilon = 1.0 / (4.0 * beta**2 * D**2) if learner.epsilon is None else learner.epsilon
    return _Parameters(float(gamma), float(eta), float(D), float(beta), float(epsilon))


@compiled
def _decide(
    parameters: _Parameters,
    state: SobaNewtonState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, evidence[i])
        lead_eligible(eligible, i, evidence[i], parameters.exploration, distributions[i])
        widen(eligible, i, evidence[i])


@compiled
def _fold(parameters: _Parameters, state: SobaNewtonState, rounds: Rounds) -> None:
    n = state.weights.size
    g, theta = np.zeros(n), np.empty(n)
    for t in range(len(rounds.labels)):
        y = rounds.labels[t]
        led = leading_rival(rounds.eligible, t, rounds.evidence[t], -1)  # -1 excludes no label
        if rounds.correct[t] and led != y:
            margin = rounds.evidence[t, y] - rounds.evidence[t, led]
            slope = 2.0 * (parameters.eta * margin - 1.0) / (2.0 - parameters.eta)
            indices, values = row(rounds.contexts, t)
            _step(parameters, state, slope / rounds.propensities[t], y, led, indices, values, g, theta)
            state.updates[()] += 1
        state.rounds[()] += 1


@compiled
def _step(
    parameters: _Parameters,
    state: SobaNewtonState,
    slope: float,
    y: int,
    led: int,
    indices: IntArray,
    values: FloatArray,
    g: FloatArray,
    theta: FloatArray,
) -> None:
    """Add gg' to A; set W = argmin ½ w'Aw - (A W - g/β)'w in the ball, for g = slope (e_y - e_led) ⊗ x."""
    d, K = state.weights.shape
    g[:] = 0.0
    for position in range(len(values)):
        g[y * d + indices[position]] = slope * values[position]
        g[led * d + indices[position]] = -slope * values[position]
    packed_rank_one(state.matrix, g, 1.0)
    w = np.ascontiguousarray(state.weights.T).ravel()
    packed_product(state.matrix, w, theta)
    for i in range(len(g)):
        theta[i] = g[i] / parameters.beta - theta[i]
    ball_minimizer(state.matrix, theta, parameters.radius, parameters.epsilon, w)
    state.weights[:] = w.reshape(K, d).T

"""Newtron: an online Newton step on the logistic loss under bandit feedback, and its diagonal, PNewtron.

Elad Hazan and Satyen Kale, "Newtron: an Efficient Bandit Algorithm for Online Multiclass Prediction",
NIPS 2011, Algorithm 1. The published code of PNewtron writes ±1/K where the gradient's estimate needs
(K - 1)/K on the label served, which biases it; here E[c] = p - e_y exactly. Of the two ways to take the centre of a
round, W' in every round or 0 in those that explore, only the first is offered: it draws once.
"""

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.ball import ball_minimizer
from learners.base import (
    Contexts,
    Count,
    FloatArray,
    IntArray,
    Layout,
    NonNegativeScalar,
    Problem,
    Rounds,
    hyperparameters,
    zero_state,
)
from learners.compiled_learner import CompiledLearner
from learners.exploration import Schedule, scheduled, scheduled_rate, soften, softmax
from learners.kernels import Kernels, compiled, compiled_sum, row
from learners.linear_algebra import add_outer, packed_identity, packed_rank_one, score_row, squared_norm

_REFRESH = 65_536  # rounds between exact recomputations of the squared norm
_COLLAPSE = 1e-3  # or as soon as it falls this far in one round, its digits being those of larger numbers
_LARGEST_WEIGHT = 1e75  # without projection adversarial labels let weights grow like t^d; they are cut here
_LARGEST_CURVATURE = 1e9  # β D X², where the full matrix begins to lose its digits

Exploration = Literal["anytime"] | Annotated[float, pydantic.Field(ge=1e-6, le=1)]
Sharpness = Annotated[float, pydantic.Field(gt=0, le=1e6)]
Radius = Annotated[float, pydantic.Field(ge=1e-6, le=1e6)]

_DEFAULT_RADIUS = 10.0  # times 1/X


class PNewtronState(NamedTuple):
    """2·K·d numbers; b = -A ∘ W' is implied. W' is kept as it is before projection."""

    diagonal: Annotated[FloatArray, Layout("float64", ("d", "K"), least=1e-8)]  # A, every entry >= 1/D, D <= 1e7
    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]  # W' = -b / A
    squared_norm: NonNegativeScalar  # of the weights
    rounds: Count  # rounds folded so far, t - 1


class NewtronState(NamedTuple):
    """A has its rows ordered by label, then feature."""

    matrix: Annotated[FloatArray, Layout("float64", ("P",))]  # A, n by n, a packed lower triangle
    linear: Annotated[FloatArray, Layout("float64", ("d", "K"))]  # b
    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]  # W', a function of A and b
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    """The hyperparameters as the kernels want them."""

    exploration: Schedule
    alpha: float
    beta: float
    radius: float
    projected: bool


@hyperparameters
class PNewtron(CompiledLearner[PNewtronState]):
    """Newtron with the diagonal of A: O(K·nnz) per round, 2·K·d numbers of memory.

    Answers p' = (1 - γ) softmax(α W x) + (γ/K) 1 and learns from every round. Late feedback takes the
    gradient at the scores of the prediction and weighs it by the stored propensity, so the state does not
    depend on the order of arrival, up to rounding.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range.
    """

    algorithm: ClassVar[str] = "pnewtron"
    guarantee: ClassVar[str] = "None proved: the diagonal of a learner with regret O(log T) in log-loss (newtron)."
    smaller: ClassVar[str] = "fewer features"
    state_type: ClassVar[type[Any]] = PNewtronState

    problem: Problem
    exploration: Exploration = "anytime"
    """γ, the share of uniform exploration, or `anytime` for γ_t = min(1, √(K/t))."""
    alpha: Sharpness = 10.0
    """α, how sharply the distribution follows the scores; the loss is that of softmax(α W x)."""
    beta: Sharpness = 0.01
    """β, the share of each gradient's square that enters A."""
    radius: Radius | None = None
    """D: A starts as I/D, and weights are kept in the Frobenius ball of this radius. `null` for 10/X; papers take 1."""
    projection: Literal["scale", "none"] = "scale"
    """How weights are brought into the ball: `scale` them, or `none`, not at all."""

    @property
    def fold_cost(self) -> int:
        """A, W' and its norm."""
        return 3 * self.problem.n_labels * self.problem.n_features

    @property
    def kernels(self) -> Kernels:
        """Answers p', the evidence being the scores W x; one diagonal Newton step for every round."""
        return Kernels(_parameters(self, self.projection == "scale"), _decide_diagonal, _fold_diagonal)

    def init(self) -> PNewtronState:
        """A = I/D, W' = 0."""
        state: PNewtronState = zero_state(self)
        state.diagonal[:] = 1.0 / ball_of(self)
        return state

    def weights(self, state: PNewtronState) -> FloatArray:
        """W as (K, d), rows the labels' weight vectors, projected."""
        return np.ascontiguousarray(state.weights.T) * _multiplier(_parameters(self, self.projection == "scale"), state)


@hyperparameters
class Newtron(CompiledLearner[NewtronState]):
    """Newtron with its full matrix: (K·d)² / 2 numbers of memory, as much time per round, (K·d)³ per fold.

    Answers p' = (1 - γ) softmax(α W x) + (γ/K) 1 and learns from every round. Late feedback takes the
    gradient at the scores of the prediction and weighs it by the stored propensity, so the state does not
    depend on the order of arrival, up to rounding.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range, or β D X² over 1e9.
    """

    algorithm: ClassVar[str] = "newtron"
    guarantee: ClassVar[str] = (
        "Regret O(log T) in log-loss for a fixed alpha, O(√T) for one that grows like log T, O(T^(2/3)) at worst "
        "(Hazan and Kale 2011)."
    )
    smaller: ClassVar[str] = "pnewtron"
    state_type: ClassVar[type[Any]] = NewtronState

    problem: Problem
    exploration: Exploration = "anytime"
    """γ, the share of uniform exploration, or `anytime` for γ_t = min(1, √(K/t))."""
    alpha: Sharpness = 10.0
    """α, how sharply the distribution follows the scores; the loss is that of softmax(α W x)."""
    beta: Sharpness = 0.01
    """β, the share of each gradient's square that enters A."""
    radius: Radius | None = None
    """D: A starts as I/D, and weights are kept in the Frobenius ball of this radius. `null` for 10/X; papers take 1."""

    def __post_init__(self) -> None:
        """Refuses a matrix that would lose its digits."""
        if self.beta * ball_of(self) * self.problem.norm_bound**2 > _LARGEST_CURVATURE:
            raise ValueError("beta times radius times the squared norm bound of the contexts must be at most 1e9")

    @property
    def fold_cost(self) -> int:
        """A rank-one update of the packed triangle."""
        n = self.problem.n_labels * self.problem.n_features
        return n * n

    @property
    def fold_overhead(self) -> int:
        """The factorizations that bring W' into the ball."""
        n = self.problem.n_labels * self.problem.n_features
        return n**3

    @property
    def kernels(self) -> Kernels:
        """Answers p', the evidence being the scores W x; a fold adds its rounds to A and b, then minimizes once."""
        return Kernels(_parameters(self, True), _decide_full, _fold_full)

    def init(self) -> NewtronState:
        """A = I/D, b = 0, W' = 0."""
        state: NewtronState = zero_state(self)
        packed_identity(state.matrix, 1.0 / ball_of(self), self.problem.n_labels * self.problem.n_features)
        return state


def ball_of(learner: PNewtron | Newtron) -> float:
    """D."""
    return _DEFAULT_RADIUS / learner.problem.norm_bound if learner.radius is None else learner.radius


def _parameters(learner: PNewtron | Newtron, projected: bool) -> _Parameters:
    exploration = scheduled(learner.exploration, learner.problem.n_labels)
    return _Parameters(exploration, learner.alpha, learner.beta, ball_of(learner), projected)


@compiled
def _multiplier(parameters: _Parameters, state: PNewtronState) -> float:
    """W / W'."""
    norm = math.sqrt(state.squared_norm.item())
    return parameters.radius / norm if parameters.projected and norm > parameters.radius else 1.0


@compiled
def _decide_diagonal(
    parameters: _Parameters, state: PNewtronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    multiplier, rate = _multiplier(parameters, state), scheduled_rate(parameters.exploration, state.rounds.item())
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, evidence[i])
        evidence[i] *= multiplier
        soften(evidence[i], parameters.alpha, rate, distributions[i])


@compiled
def _decide_full(
    parameters: _Parameters, state: NewtronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    rate = scheduled_rate(parameters.exploration, state.rounds.item())
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, evidence[i])
        soften(evidence[i], parameters.alpha, rate, distributions[i])


@compiled
def gradient_estimate(
    alpha: float, s: FloatArray, label: int, correct: bool, propensity: float, coefficients: FloatArray
) -> float:
    """Writes c (K,), over the label drawn softmax(αs) - e_y in expectation; returns κ, the weight of its square."""
    K = len(s)
    for k in range(K):
        coefficients[k] = alpha * s[k]
    softmax(coefficients, coefficients)
    size = (coefficients[label] - 1.0 if correct else coefficients[label]) / propensity
    coefficients[:] = -size / K
    coefficients[label] += size
    return propensity if correct else 1.0


@compiled_sum
def _inner(left: FloatArray, right: FloatArray) -> float:
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total


@compiled
def _fold_diagonal(parameters: _Parameters, state: PNewtronState, rounds: Rounds) -> None:
    alpha, beta = parameters.alpha, parameters.beta
    c, changes = np.empty(state.weights.shape[1]), np.empty(state.weights.shape[1])
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        s = rounds.evidence[t]
        kappa = gradient_estimate(alpha, s, rounds.labels[t], rounds.correct[t], rounds.propensities[t], c)
        old = state.squared_norm.item()
        step = 1.0 - kappa * beta * _inner(c, s)
        new = old + _newton_step(state, kappa * beta, step, c, indices, values, changes)
        state.rounds[()] += 1
        if new < _COLLAPSE * old or state.rounds.item() % _REFRESH == 0:
            new = squared_norm(state.weights.ravel())
        state.squared_norm[()] = max(0.0, new)


@compiled
def _newton_step(
    state: PNewtronState,
    share: float,
    step: float,
    c: FloatArray,
    indices: IntArray,
    values: FloatArray,
    changes: FloatArray,
) -> float:
    """A += share (c ⊗ x)², b += step (c ⊗ x), W' = -b / A; returns by how much ‖W'‖² changed. `changes` is scratch."""
    changes[:] = 0.0
    for position in range(len(values)):
        i, x = indices[position], values[position]
        for k in range(len(c)):
            a, w, G = state.diagonal[i, k], state.weights[i, k], c[k] * x
            state.diagonal[i, k] = a + share * G * G
            new = (a * w - step * G) / state.diagonal[i, k]
            state.weights[i, k] = min(max(new, -_LARGEST_WEIGHT), _LARGEST_WEIGHT)
            changes[k] += (state.weights[i, k] - w) * (state.weights[i, k] + w)
    return float(changes.sum())


@compiled
def _fold_full(parameters: _Parameters, state: NewtronState, rounds: Rounds) -> None:
    if len(rounds.labels) == 0:
        return
    _, alpha, beta, radius, _ = parameters
    d, K = state.weights.shape
    c, G = np.empty(K), np.zeros(K * d)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        s = rounds.evidence[t]
        kappa = gradient_estimate(alpha, s, rounds.labels[t], rounds.correct[t], rounds.propensities[t], c)
        G[:] = 0.0
        for position in range(len(values)):
            for k in range(K):
                G[k * d + indices[position]] = c[k] * values[position]
        packed_rank_one(state.matrix, G, kappa * beta)
        add_outer(state.linear, (1.0 - kappa * beta * _inner(c, s)) * c, indices, values)
        state.rounds[()] += 1
    result = np.empty(K * d)
    ball_minimizer(state.matrix, np.ascontiguousarray(state.linear.T).ravel(), radius, 1.0 / radius, result)
    state.weights[:] = result.reshape(K, d).T

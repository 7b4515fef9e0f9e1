"""PNewtron, which is Newtron with a diagonal matrix, and the code that it shares with `newtron`.

Elad Hazan and Satyen Kale, "Newtron: an Efficient Bandit Algorithm for Online Multiclass Prediction", NIPS 2011,
Algorithm 1. The surrogate of a round can be expanded at W' in every round, or at 0 in exploring rounds. Only the
former is implemented: it needs only one draw. The published code's gradient estimate is biased: for the served label,
it uses ±1/K instead of (K - 1)/K. Here, the mean of the estimate c is exactly softmax(αWx) - e_y, for true label y.
"""

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import pydantic

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds, StateT
from learners.hyperparameters import Exploration, Magnitude, Positive, hyperparameters
from learners.kernels import Kernels, compiled, compiled_sum, narrow, place_of, row, widen
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, zero_state
from learners.learner import CompiledLearner, Delayed, DelayedUpdate
from learners.mathematics.exploration import Schedule, scheduled, scheduled_rate, soften, softmax
from learners.mathematics.guarantees import uncovered
from learners.mathematics.linear_algebra import score_row, squared_norm

_REFRESH = 65_536  # rounds between exact recomputations of the squared norm
_COLLAPSE = 1e-3  # also recomputed when a round leaves less than this share of the norm: cancellation loses digits
_LARGEST_WEIGHT = 1e75  # without projection, adversarial labels let weights grow like t^d; they are clipped here

Rate: TypeAlias = Annotated[
    Exploration,
    pydantic.Field(description="γ, the share of uniform exploration, or `anytime` for γ_t = min(1, √(K/t))."),
]
Alpha: TypeAlias = Annotated[
    Positive,
    pydantic.Field(description="α, the inverse temperature of the distribution; the loss is that of softmax(α W x)."),
]
Beta: TypeAlias = Annotated[
    Positive, pydantic.Field(description="β, the share of each squared gradient that is added to A.")
]
Radius: TypeAlias = Annotated[
    Magnitude | None,
    pydantic.Field(
        description="D: A starts as I/D, and W is projected onto the Frobenius ball of this radius. `null`: 10/X; "
        "the papers use 1."
    ),
]

_DEFAULT_RADIUS = 10.0  # times 1/X


class PNewtronState(NamedTuple):
    """2·K·d numbers; b = -A ∘ W' is implicit. W' is stored before projection."""

    diagonal: Annotated[FloatArray, Layout("float64", ("d", "K"), least=1e-8)]  # A, every entry >= 1/D, D <= 1e7
    weights: LabelVectors  # W' = -b / A
    squared_norm: NonNegativeScalar  # of the weights
    rounds: Count  # rounds folded so far, t - 1


class Parameters(NamedTuple):
    """The hyperparameters, encoded for the kernels."""

    exploration: Schedule
    alpha: float
    beta: float
    radius: float
    projected: bool
    as_of_prediction: bool


@hyperparameters
class Newtonian(Delayed, CompiledLearner[StateT]):
    """The settings that Newtron and PNewtron share."""

    labels_grow: ClassVar[bool] = True

    exploration: Rate = "anytime"
    alpha: Alpha = 10.0
    beta: Beta = 0.01
    radius: Radius = None

    def parameters(self, *, projected: bool) -> Parameters:
        """Return the hyperparameters, encoded for the kernels."""
        exploration, kept = scheduled(self.exploration, self.problem.n_labels), self.evidence_size > 0
        return Parameters(exploration, self.alpha, self.beta, ball_of(self), projected, kept)


def ball_of(learner: Newtonian[Any]) -> float:
    """Return D: the radius, or 10/X by default."""
    return _DEFAULT_RADIUS / learner.problem.norm_bound if learner.radius is None else learner.radius


@hyperparameters
class PNewtron(Newtonian[PNewtronState]):
    """Newtron with the diagonal of A: O(K·nnz) per round, 2·K·d numbers of memory.

    The distribution is p' = (1 - γ) softmax(α W x) + (γ/K) 1; every round updates. With `as_of_prediction`, late
    feedback takes the gradient at the scores of the prediction, and the order of arrival affects the state only by
    rounding.
    """

    algorithm = "pnewtron"
    smaller = "fewer features"
    state_type = PNewtronState

    projection: Literal["scale", "none"] = "scale"
    """How weights are brought into the ball: `scale` scales them; `none` does not project."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        return uncovered(
            "no analysis covers the diagonal of Newtron's matrix", "folklore-bandit with a fixed exploration"
        )

    def fold_cost(self, nonzeros: int) -> int:
        return (3 if self.evidence_size else 4) * self.problem.n_labels * nonzeros

    @property
    def kernels(self) -> Kernels:
        return Kernels(self._parameters, _decide, _fold)

    @property
    def _parameters(self) -> Parameters:
        return self.parameters(projected=self.projection == "scale")

    def init(self) -> PNewtronState:
        state: PNewtronState = zero_state(self)
        state.diagonal[:] = 1.0 / ball_of(self)
        return state

    def weights(self, state: PNewtronState) -> FloatArray:
        """Return W as (K, d), one row per label, after projection."""
        return np.ascontiguousarray(state.weights.T) * _multiplier(self._parameters, state)

    def contributions(self, state: PNewtronState, contexts: Contexts, /) -> FloatArray:
        weights: FloatArray = state.weights[contexts.indices] * _multiplier(self._parameters, state)
        return weights * contexts.values[:, np.newaxis]


@compiled
def _multiplier(parameters: Parameters, state: PNewtronState) -> float:
    """Return the factor c in W = c · W'."""
    norm = math.sqrt(state.squared_norm.item())
    return parameters.radius / norm if parameters.projected and norm > parameters.radius else 1.0


@compiled
def _decide(
    parameters: Parameters,
    state: PNewtronState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    multiplier, rate = _multiplier(parameters, state), scheduled_rate(parameters.exploration, state.rounds.item())
    s = np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        s *= multiplier
        n = narrow(eligible, i, s)
        soften(s[:n], parameters.alpha, rate, distributions[i][:n])
        widen(eligible, i, distributions[i])
        if parameters.as_of_prediction:
            evidence[i] = s
            widen(eligible, i, evidence[i])


@compiled
def _fold(parameters: Parameters, state: PNewtronState, rounds: Rounds) -> None:
    alpha, beta = parameters.alpha, parameters.beta
    K = state.weights.shape[1]
    s, c, changes = np.empty(K), np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.as_of_prediction:
            s[:] = rounds.evidence[t]
        else:
            score_row(state.weights, rounds.contexts, t, s)
            s *= _multiplier(parameters, state)
        n, place = narrow(rounds.eligible, t, s), place_of(rounds.eligible, t, rounds.labels[t])
        kappa = gradient_estimate(alpha, s[:n], place, rounds.correct[t], rounds.propensities[t], c[:n])
        known = inner(c[:n], s[:n])
        widen(rounds.eligible, t, c)
        old = state.squared_norm.item()
        step = 1.0 - kappa * beta * known
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
    """Add share · (c ⊗ x)² to A and step · (c ⊗ x) to b; set W' = -b / A; return the change of ‖W'‖²."""
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
def gradient_estimate(
    alpha: float, s: FloatArray, label: int, correct: bool, propensity: float, coefficients: FloatArray
) -> float:
    """Write an unbiased estimate c (K,) of softmax(αs) - e_y for the true label y.

    Return κ, the weight of the squared gradient.
    """
    K = len(s)
    for k in range(K):
        coefficients[k] = alpha * s[k]
    softmax(coefficients, coefficients)
    size = (coefficients[label] - 1.0 if correct else coefficients[label]) / propensity
    coefficients[:] = -size / K
    coefficients[label] += size
    return propensity if correct else 1.0


@compiled_sum
def inner(left: FloatArray, right: FloatArray) -> float:
    """Return the inner product of two vectors."""
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total

"""The logistic learner with randomized decoding: full information, a constant surrogate regret without log K.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 5.1.
Steps: Theorem 4.2, Appendix E.1 (its sum runs to t, printed to T) and E.2, the last one being Cutkosky and
Orabona, "Black-Box Reductions for Parameter-free Online Learning in Banach Spaces", COLT 2018, section 3.
"""

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.base import (
    Contexts,
    Count,
    FloatArray,
    IntArray,
    Layout,
    NonNegativeScalar,
    PositiveScalar,
    Problem,
    Rounds,
    hyperparameters,
    zero_state,
)
from learners.compiled_learner import CompiledLearner
from learners.exploration import leader, softmax
from learners.kernels import Kernels, compiled, row
from learners.linear_algebra import add_outer, scale_into_ball, score, score_row, squared_norm
from learners.losses import LOGISTIC, surrogate

_LN2 = math.log(2.0)
_REFRESH = 65_536  # rounds between exact recomputations of the squared norm
_LARGEST_WEALTH = 1e100  # no run of consistent feedback comes near; stale feedback must not overflow
_BETTING_STEP = 2.0 / (2.0 - math.log(3.0))  # of the Newton step for the betting fraction
_FIXED, _ADAPTIVE, _PARAMETER_FREE = 0, 1, 2


class FenchelYoungState(NamedTuple):
    """The weights are W = scale · direction; parameter-free, that is the unit-ball u and W = v · wealth · u / X."""

    direction: Annotated[FloatArray, Layout("float64", ("d", "K"))]
    scale: PositiveScalar  # so that projecting touches one number
    squared_norm: NonNegativeScalar  # of direction
    gradient_sum: NonNegativeScalar  # Σ‖G‖² of the adaptive step, Σ‖g‖² of the parameter-free one
    wealth: NonNegativeScalar  # parameter-free, starts at 1
    fraction: Annotated[FloatArray, Layout("float64", least=-0.5)]  # v, the share of the wealth that is bet
    curvature: PositiveScalar  # A of the Newton step for v, starts at 1
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    """The hyperparameters as the kernels want them."""

    mode: int
    step: float  # η; B/√2 where the step is adaptive; √2 where parameter-free
    radius: float  # D, infinite for no projection; 1 where parameter-free
    largest_gradient: float  # what G is divided by: √2 X / ln 2 where parameter-free, else 1
    norm_bound: float  # X


@hyperparameters
class FenchelYoung(CompiledLearner[FenchelYoungState]):
    """Base-2 logistic loss, gradient descent, and an answer that randomizes only as much as the loss pays for.

    With σ the softmax of the scores, the answer is P = q σ + (1 - q) e_y* with q = min(1, 2(1 - σ_y*)), y* the
    leader. A late update takes the gradient at the scores of the prediction. Nothing is learned from a round
    without its true label.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range, or two that contradict each other.
    """

    algorithm: ClassVar[str] = "fenchel-young"
    guarantee: ClassVar[str] = (
        "Expected mistakes exceed the base-2 logistic loss of any U by at most X²‖U‖² / (2(1 - ln 2) ln 2), whatever "
        "the rounds (Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 5.1)."
    )
    smaller: ClassVar[str] = "fewer features"
    state_type: ClassVar[type[Any]] = FenchelYoungState

    problem: Problem
    learning_rate: Literal["theorem", "adaptive", "parameter-free"] | Annotated[float, pydantic.Field(gt=0, le=1e6)] = (
        "theorem"
    )
    """`theorem` for η = (1 - ln 2) ln 2 / X², `adaptive` (needs a radius), `parameter-free`, or a fixed η."""
    radius: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] | None = None
    """D: weights are kept in the Frobenius ball of this radius. `null`: no ball, as the theorem allows."""

    def __post_init__(self) -> None:
        """Refuses combinations without a meaning."""
        if self.learning_rate == "adaptive" and self.radius is None:
            raise ValueError("an adaptive learning_rate needs a radius")
        if self.learning_rate == "parameter-free" and self.radius is not None:
            raise ValueError("a parameter-free learning_rate takes no radius")

    @property
    def needs_true_label(self) -> bool:
        """Always."""
        return True

    @property
    def fold_cost(self) -> int:
        """K·d, twice where parameter-free."""
        return self.problem.n_labels * self.problem.n_features * (2 if self.learning_rate == "parameter-free" else 1)

    @property
    def kernels(self) -> Kernels:
        """Answers P, the evidence being the scores W x; one step for each round with a true label."""
        return Kernels(_parameters(self), _decide, _fold)

    def init(self) -> FenchelYoungState:
        """Zero weights."""
        state: FenchelYoungState = zero_state(self)
        for one in (state.scale, state.wealth, state.curvature):
            one[()] = 1.0
        return state

    def weights(self, state: FenchelYoungState) -> FloatArray:
        """W as (K, d), rows the labels' weight vectors."""
        return np.ascontiguousarray(state.direction.T) * _multiplier(_parameters(self), state)


def _parameters(learner: FenchelYoung) -> _Parameters:
    X, radius = learner.problem.norm_bound, math.inf if learner.radius is None else learner.radius
    if learner.learning_rate == "parameter-free":
        return _Parameters(_PARAMETER_FREE, math.sqrt(2.0), 1.0, math.sqrt(2.0) * X / _LN2, X)
    if learner.learning_rate == "adaptive":
        return _Parameters(_ADAPTIVE, 2.0 * radius / math.sqrt(2.0), radius, 1.0, X)
    theorem = (1.0 - _LN2) * _LN2 / X**2
    step = theorem if isinstance(learner.learning_rate, str) else learner.learning_rate
    return _Parameters(_FIXED, float(step), float(radius), 1.0, X)


@compiled
def _multiplier(parameters: _Parameters, state: FenchelYoungState) -> float:
    """W / direction."""
    if parameters.mode != _PARAMETER_FREE:
        return state.scale.item()
    fraction = min(0.5, max(-0.5, state.fraction.item()))
    return fraction * min(_LARGEST_WEALTH, state.wealth.item()) * state.scale.item() / parameters.norm_bound


@compiled
def _decide(
    parameters: _Parameters,
    state: FenchelYoungState,
    contexts: Contexts,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    multiplier = _multiplier(parameters, state)
    for i in range(len(distributions)):
        score_row(state.direction, contexts, i, evidence[i])
        evidence[i] *= multiplier
        decode(evidence[i], distributions[i])


@compiled
def decode(scores: FloatArray, distribution: FloatArray) -> None:
    """Writes P = q σ + (1 - q) e_y* to distribution (K,), q = min(1, 2(1 - σ_y*)): Theorem 5.1's answer."""
    softmax(scores, distribution)
    top, rest = leader(scores), 0.0
    for k in range(len(scores)):
        if k != top:
            rest += distribution[k]
    q = min(1.0, 2.0 * rest)
    for k in range(len(scores)):
        distribution[k] *= q
    distribution[top] += 1.0 - q


@compiled
def _fold(parameters: _Parameters, state: FenchelYoungState, rounds: Rounds) -> None:
    K = state.direction.shape[1]
    s, coefficients = np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        y = rounds.true_labels[t]
        if 0 <= y < K:
            indices, values = row(rounds.contexts, t)
            s[:] = rounds.evidence[t]
            surrogate(LOGISTIC, s, y, coefficients)
            coefficients /= parameters.largest_gradient
            if parameters.mode == _PARAMETER_FREE:
                _bet(state, coefficients, indices, values, s)
            _step(parameters, state, coefficients, indices, values)
        state.rounds[()] += 1
        if state.rounds.item() % _REFRESH == 0:
            state.squared_norm[()] = squared_norm(state.direction.ravel())


@compiled
def _bet(state: FenchelYoungState, g: FloatArray, indices: IntArray, values: FloatArray, s: FloatArray) -> None:
    """Settles the bet on ⟨g, u⟩, at the u of now, and moves the fraction v by an online Newton step."""
    s[:] = 0.0
    score(state.direction, indices, values, s)
    product = 0.0
    for k in range(len(g)):
        product += g[k] * s[k]
    outcome = min(1.0, max(-1.0, product * state.scale.item()))
    v = min(0.5, max(-0.5, state.fraction.item()))
    state.wealth[()] = min(_LARGEST_WEALTH, state.wealth.item() * (1.0 - outcome * v))
    slope = outcome / (1.0 - outcome * v)
    state.curvature[()] += slope * slope
    state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))


@compiled
def _step(
    parameters: _Parameters, state: FenchelYoungState, coefficients: FloatArray, indices: IntArray, values: FloatArray
) -> None:
    """One projected gradient step of η, or η / √Σ‖G‖², on direction."""
    step = parameters.step
    if parameters.mode != _FIXED:
        state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)
        if state.gradient_sum.item() <= 0.0:
            return
        step /= math.sqrt(state.gradient_sum.item())
    for k in range(len(coefficients)):
        coefficients[k] *= -step / state.scale.item()
    change = add_outer(state.direction, coefficients, indices, values)
    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)
    scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)

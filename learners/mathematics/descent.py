"""Online gradient descent on linear weights, with the step sizes of the Fenchel-Young learners.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024. Step sizes: Theorems
4.2 and 4.3, Appendix E.1 (its sum runs to t; the paper prints T), and Appendix E.2, whose step sizes are from
Cutkosky and Orabona, "Black-Box Reductions for Parameter-free Online Learning in Banach Spaces", COLT 2018, section 3.
"""

import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np

from learners.base import AnyLearner, BoolArray, Contexts, FloatArray, IntArray
from learners.kernels import compiled, row
from learners.layouts import Count, Layout, NonNegativeScalar, PositiveScalar, zero_state
from learners.mathematics.guarantees import ROUNDING
from learners.mathematics.linear_algebra import add_outer, scale_into_ball, score, squared_norm

_REFRESH = 65_536  # rounds between exact recomputations of the squared norm
_LARGEST_WEALTH = 1e100  # far beyond what timely feedback reaches; stale feedback must not overflow
_BETTING_STEP = 2.0 / (2.0 - math.log(3.0))  # the factor of the Newton step for the betting fraction
_FIXED, _ADAPTIVE, _PARAMETER_FREE = 0, 1, 2


class DescentState(NamedTuple):
    """The weights W = scale · direction, or v · wealth · scale · direction / X if parameter-free."""

    direction: Annotated[FloatArray, Layout("float64", ("d", "n_scores"))]
    scale: PositiveScalar  # a projection changes only this number
    squared_norm: NonNegativeScalar  # of `direction`
    gradient_sum: NonNegativeScalar  # Σ‖G‖² of the gradients, divided by `largest_gradient`; 0 with a fixed step
    wealth: NonNegativeScalar  # only if parameter-free; starts at 1
    fraction: Annotated[FloatArray, Layout("float64", least=-0.5)]  # v, the share of the wealth that is bet
    curvature: PositiveScalar  # A of the Newton step for v; starts at 1
    rounds: Count  # rounds folded so far, t - 1


def untaught(learner: AnyLearner) -> DescentState:
    """Return the initial state of a learner with this type of state: zero weights."""
    state: DescentState = zero_state(learner)
    for one in (state.scale, state.wealth, state.curvature):
        one[()] = 1.0
    return state


class Steps(NamedTuple):
    """The step sizes, encoded for the kernels."""

    mode: int
    step: float  # η; B/√2 if adaptive, B being the diameter of the ball; √2 if parameter-free
    radius: float  # D, infinite for no projection; 1 if parameter-free
    largest_gradient: float  # the divisor of each gradient G: a bound on ‖G‖ if parameter-free, else 1
    norm_bound: float  # X


def check_radius(learning_rate: str | float, radius: float | None) -> None:
    """Raise `ValueError` for `adaptive` without a radius, and for `parameter-free` with one."""
    if learning_rate == "adaptive" and radius is None:
        raise ValueError("an adaptive learning_rate requires a radius")
    if learning_rate == "parameter-free" and radius is not None:
        raise ValueError("a parameter-free learning_rate does not take a radius")


def steps(
    learning_rate: str | float,
    named: Mapping[str, float],
    radius: float | None,
    norm_bound: float,
    largest_gradient: float,
) -> Steps:
    """Return the step sizes for a learning rate: `adaptive`, `parameter-free`, a key of `named`, or η itself.

    `named` maps names to η, such as the step of a theorem. Weights are projected onto the Frobenius ball of this
    radius, if it is not None. The norm bound is X; largest_gradient bounds ‖G‖.
    """
    ball = math.inf if radius is None else float(radius)
    if learning_rate == "parameter-free":
        return Steps(_PARAMETER_FREE, math.sqrt(2.0), 1.0, largest_gradient, norm_bound)
    if learning_rate == "adaptive":
        return Steps(_ADAPTIVE, 2.0 * ball / math.sqrt(2.0), ball, 1.0, norm_bound)
    step = named[learning_rate] if isinstance(learning_rate, str) else learning_rate
    return Steps(_FIXED, float(step), ball, 1.0, norm_bound)


def proved_step(steps: Steps, largest: float) -> float | None:
    """Return η if it is fixed and at most the largest step that a theorem covers, else `None`."""
    return steps.step if steps.mode == _FIXED and steps.step <= largest * ROUNDING else None


@compiled
def multiplier(steps: Steps, state: DescentState) -> float:
    """Return the factor c in W = c · direction."""
    if steps.mode != _PARAMETER_FREE:
        return state.scale.item()
    fraction = min(0.5, max(-0.5, state.fraction.item()))
    return fraction * min(_LARGEST_WEALTH, state.wealth.item()) * state.scale.item() / steps.norm_bound


@compiled
def descend(steps: Steps, state: DescentState, coefficients: FloatArray, indices: IntArray, values: FloatArray) -> None:
    """Take one projected gradient step, or parameter-free step, for G = coefficients ⊗ x; overwrite coefficients."""
    coefficients /= steps.largest_gradient
    if steps.mode == _PARAMETER_FREE:
        _bet(state, coefficients, indices, values)
    _step(steps, state, coefficients, indices, values)


@compiled
def count(state: DescentState) -> None:
    """Count one more round; recompute the squared norm every 65,536 rounds."""
    state.rounds[()] += 1
    if state.rounds.item() % _REFRESH == 0:
        state.squared_norm[()] = squared_norm(state.direction.ravel())


@compiled
def descend_all(
    steps: Steps, state: DescentState, contexts: Contexts, coefficients: FloatArray, known: BoolArray
) -> None:
    """Fold one round per row of coefficients (n, n_scores), and overwrite them; only count rounds not `known` (n,)."""
    for t in range(len(known)):
        if known[t]:
            indices, values = row(contexts, t)
            descend(steps, state, coefficients[t], indices, values)
        count(state)


@compiled
def _bet(state: DescentState, g: FloatArray, indices: IntArray, values: FloatArray) -> None:
    """Settle the bet on ⟨g ⊗ x, u⟩ at u = scale · direction; move the fraction v by an online Newton step."""
    s, product = np.zeros(len(g)), 0.0
    score(state.direction, indices, values, s)
    for k in range(len(g)):
        product += g[k] * s[k]
    outcome = min(1.0, max(-1.0, product * state.scale.item()))
    v = min(0.5, max(-0.5, state.fraction.item()))
    state.wealth[()] = min(_LARGEST_WEALTH, state.wealth.item() * (1.0 - outcome * v))
    slope = outcome / (1.0 - outcome * v)
    state.curvature[()] += slope * slope
    state.fraction[()] = min(0.5, max(-0.5, v - _BETTING_STEP * slope / state.curvature.item()))


@compiled
def _step(steps: Steps, state: DescentState, coefficients: FloatArray, indices: IntArray, values: FloatArray) -> None:
    """Take one projected gradient step of size η, or η / √Σ‖G‖² if not fixed, on scale · direction."""
    step = steps.step
    if steps.mode != _FIXED:
        state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)
        if state.gradient_sum.item() <= 0.0:
            return
        step /= math.sqrt(state.gradient_sum.item())
    for k in range(len(coefficients)):
        coefficients[k] *= -step / state.scale.item()
    change = add_outer(state.direction, coefficients, indices, values)
    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)
    scale_into_ball(steps.radius, state.direction, state.scale, state.squared_norm)

"""Gaptron: exploration paid for by the gap between a surrogate loss and the zero-one loss.

Dirk van der Hoeven, "Exploiting the Surrogate Gap in Online Multiclass Classification", NeurIPS 2020. Full information:
Theorems 1-3; bandit feedback: Theorems 4-6. Printed errors are corrected: the step for the smooth hinge under full
information is 1/(4KX²), and its bandit exploration is tuned with 2K²X²D²; the logistic bandit exploration includes the
factors D and ln 2; the hinge gap at a margin m* below β is 1 - m*, not max{1[m* > β], m*}. The same proofs cover any
smaller step, any fixed γ and, with dual averaging, any non-increasing γ_t.

The adaptive step is AdaGrad's: John Duchi, Elad Hazan, Yoram Singer, "Adaptive Subgradient Methods for Online Learning
and Stochastic Optimization", JMLR 2011, with the K weights of a feature as one block.
"""

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.hyperparameters import Horizon, LeastExploration, Positive, hyperparameters, refusal
from learners.kernels import Kernels, compiled, narrow, place_of, row, widen
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, PositiveScalar, zero_state
from learners.learner import CompiledLearner, Delayed, DelayedUpdate
from learners.mathematics.exploration import Schedule, leader, mix_with_uniform, scheduled, scheduled_rate
from learners.mathematics.gaptron_schedules import (
    anytime_constant,
    least_gap,
    safe_step,
    tuned_bound,
    tuned_exploration,
)
from learners.mathematics.guarantees import AT_ONCE, LATE, ROUNDING, counted, uncovered, within
from learners.mathematics.linear_algebra import add_outer, scale_into_ball, score, squared_norm
from learners.mathematics.losses import LOSS_CODES, LossName, gap_share, surrogate

_LEAST_RATE = 1e-6  # the minimum exploration, from a fixed rate or from the gap alone
_REFRESH = 65_536  # rounds between exact recomputations of the squared norm


class GaptronState(NamedTuple):
    """The weights are W = multiplier · direction, so that a projection or a falling γ changes one number."""

    direction: LabelVectors
    scale: PositiveScalar  # the multiplier if the step is fixed; else 1
    squared_norm: NonNegativeScalar  # that of `direction`; if the step is adaptive, it is out of date and not used
    gradient_sums: Annotated[FloatArray, Layout("float64", ("d",), least=0.0)]  # G of the adaptive step, else 0
    rounds: Count  # rounds folded so far, t - 1


_FIXED, _AVERAGED, _ADAPTIVE = range(3)  # how W moves: projected steps, dual averaging, or a step per feature


class _Parameters(NamedTuple):
    loss: int
    full_information: bool
    as_of_prediction: bool
    mode: int
    step: float  # η, or κ = η/γ with dual averaging
    exploration: Schedule
    radius: float  # D, infinite for no projection


@hyperparameters
class Gaptron(Delayed, CompiledLearner[GaptronState]):
    """Gaptron with logistic, hinge or smooth hinge loss, under bandit feedback or full information.

    The distribution is p' = (1 - q) e_y* + (q / K) 1 with q = max(a, γ), where y* is the highest-scoring label, a is
    the exploration that the surrogate gap pays for, and γ is the exploration rate. Under bandit feedback, only correct
    answers cause updates, with gradients divided by the stored propensity. Under full information, γ is 0, and every
    true label causes an update.
    """

    algorithm = "gaptron"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = GaptronState

    loss: LossName = "smooth_hinge"
    """The surrogate loss."""
    information: Literal["bandit", "full"] = "bandit"
    """`bandit` learns from the right-or-wrong bit, `full` from the true label, which all feedback must then carry."""
    exploration: Literal["anytime", "theorem"] | LeastExploration = "anytime"
    """γ under bandit feedback: `anytime` for γ_t = min(1, √(K/t)), `theorem` for min(1, c/√t), or a fixed rate. 0 is
    Theorem 4's choice for a small D·X, with the logistic loss and a radius: the gap alone explores.
    """
    horizon: Horizon = None
    """The number of rounds T, if known in advance; with exploration `theorem`, γ is fixed at the value tuned for T."""
    least_exploration: LeastExploration = 0.0
    """A lower bound on a falling γ_t, for non-stationary data."""
    learning_rate: Literal["adaptive", "theorem"] | Positive = "adaptive"
    """`adaptive`: AdaGrad's step per feature, 1/X over the root of its sum of squared gradients, with regret of order
    √T in any ball; `theorem`: the paper's step, which is very small; or a fixed η, if γ is fixed or information is
    full.
    """
    eta_scale: Positive = 1.0
    """A factor for the step of `adaptive` or `theorem`."""
    radius: Positive | None = None
    """D: weights are projected onto the Frobenius ball of this radius, with `adaptive` for each feature separately.
    `null`: no projection; the theorems under bandit feedback need a radius.
    """
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        if self.horizon is not None and self.exploration != "theorem":
            raise refusal("horizon", "a horizon requires exploration: theorem")
        if self.needs_true_label:
            return
        if self.radius is None and "theorem" in {self.exploration, self.learning_rate}:
            raise refusal("radius", "the theorems under bandit feedback require a radius")
        if self.exploration == 0.0:
            self._check_gap()
        elif not isinstance(self.exploration, str) and self.exploration < _LEAST_RATE:
            raise refusal("exploration", f"a rate above 0 must be at least {_LEAST_RATE:g}")
        if self.falls and not isinstance(self.learning_rate, str):
            reason = "a fixed learning_rate requires a fixed exploration; use adaptive, with eta_scale"
            raise refusal("learning_rate", reason)

    def _check_gap(self) -> None:
        if self.loss != "logistic" or self.radius is None:
            raise refusal("exploration", "0 requires the logistic loss and a radius")
        if least_gap(self.problem, self.radius) < _LEAST_RATE:
            reach = self.radius * self.problem.norm_bound
            raise refusal("exploration", f"0 requires a smaller radius: with D X = {reach:g}, the gap is nearly 0")

    @property
    def guarantee(self) -> str:
        mode, step = _step_of(self, _schedule(self))
        if mode == _ADAPTIVE:
            return _adaptive_guarantee(self)
        return (_full_guarantee if self.needs_true_label else _bandit_guarantee)(self, step)

    @property
    def proved_step(self) -> float | None:
        """The step η if it is fixed and Theorems 1-3 cover it, else None.

        With it, expected mistakes exceed the loss of any U by at most ‖U‖²/(2η).
        """
        mode, step = _step_of(self, _schedule(self))
        return step if self.needs_true_label and mode == _FIXED and not _too_large(self, step) else None

    def bound(self, rounds: int) -> float | None:
        """Return the bound on expected mistakes minus the loss of any U in the ball, after `rounds` >= 1 rounds.

        Theorems 1-6: D²/(2η) + ((K - 1)/K) Σ γ_t, with η = κγ_T for dual averaging. None if no theorem covers the
        settings, or if there is no radius.
        """
        schedule = _schedule(self)
        mode, step = _step_of(self, schedule)
        if self.radius is None or mode == _ADAPTIVE or _too_large(self, step):
            return None
        if mode == _AVERAGED:
            step *= scheduled_rate(schedule, rounds - 1)
        certain = min(rounds, schedule.constant)  # rounds with γ = 1; γ then falls to its least value, and stays there
        falling = min(rounds, schedule.constant / schedule.least**2) if schedule.least else rounds
        root = 2.0 * (math.sqrt(schedule.constant * falling) - math.sqrt(schedule.constant * certain))
        explored = certain + root + schedule.least * (rounds - falling)
        return self.radius**2 / (2.0 * step) + (1.0 - 1.0 / self.problem.n_labels) * explored

    @property
    def falls(self) -> bool:
        """Whether exploration falls with the rounds."""
        return self.information == "bandit" and isinstance(self.exploration, str) and self.horizon is None

    @property
    def needs_true_label(self) -> bool:
        return self.information == "full"

    def fold_cost(self, nonzeros: int) -> int:
        return self.problem.n_labels * nonzeros * (1 if self.evidence_size else 2)

    @property
    def kernels(self) -> Kernels:
        return Kernels(_parameters(self), _decide, _fold)

    def init(self) -> GaptronState:
        state: GaptronState = zero_state(self)
        state.scale[()] = 1.0
        return state

    def weights(self, state: GaptronState) -> FloatArray:
        """Return W as (K, d), one row per label."""
        return np.ascontiguousarray(state.direction.T) * _multiplier(_parameters(self), state)

    def contributions(self, state: GaptronState, contexts: Contexts, /) -> FloatArray:
        weights: FloatArray = state.direction[contexts.indices] * _multiplier(_parameters(self), state)
        return weights * contexts.values[:, np.newaxis]


def _parameters(learner: Gaptron) -> _Parameters:
    schedule = _schedule(learner)
    mode, step = _step_of(learner, schedule)
    return _Parameters(
        loss=LOSS_CODES[learner.loss],
        full_information=learner.needs_true_label,
        as_of_prediction=learner.as_of_prediction,
        mode=mode,
        step=step,
        exploration=schedule,
        radius=math.inf if learner.radius is None else learner.radius,
    )


def _schedule(learner: Gaptron) -> Schedule:
    if learner.needs_true_label:
        return Schedule(0.0, 1.0, 0.0)
    if learner.exploration != "theorem":
        return scheduled(learner.exploration, learner.problem.n_labels, learner.least_exploration)
    assert learner.radius is not None
    if learner.horizon is not None:
        gamma = tuned_exploration(learner.loss, learner.problem, learner.radius, learner.horizon)
        return scheduled(gamma, learner.problem.n_labels)
    c = anytime_constant(learner.loss, learner.problem, learner.radius)
    return Schedule(c * c, 0.5, learner.least_exploration)


def _step_of(learner: Gaptron, schedule: Schedule) -> tuple[int, float]:
    if learner.learning_rate == "adaptive":
        return _ADAPTIVE, learner.eta_scale / learner.problem.norm_bound
    if learner.learning_rate != "theorem":
        return _FIXED, float(learner.learning_rate)
    if learner.falls:
        return _AVERAGED, safe_step(learner.loss, learner.problem, 1.0) * learner.eta_scale
    gamma = None if learner.needs_true_label else schedule.least or _gap_of(learner)
    return _FIXED, safe_step(learner.loss, learner.problem, gamma) * learner.eta_scale


def _gap_of(learner: Gaptron) -> float:
    """Return a lower bound on the gap in every round; 0 if the gap may vanish."""
    return least_gap(learner.problem, learner.radius) if learner.loss == "logistic" and learner.radius else 0.0


@compiled
def _rate(parameters: _Parameters, state: GaptronState) -> float:
    return scheduled_rate(parameters.exploration, state.rounds.item())


@compiled
def _multiplier(parameters: _Parameters, state: GaptronState) -> float:
    """Return c in W = c · direction. With dual averaging, W is κ γ_t · direction, projected onto the ball."""
    if parameters.mode != _AVERAGED:
        return state.scale.item()
    norm = math.sqrt(state.squared_norm.item())
    multiplier = parameters.step * _rate(parameters, state)
    return multiplier if multiplier * norm <= parameters.radius else parameters.radius / norm


@compiled
def _decide(
    parameters: _Parameters,
    state: GaptronState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    rate, s = _rate(parameters, state), np.empty(state.direction.shape[1])
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        _score(parameters, state, indices, values, s)
        n = narrow(eligible, i, s)
        top = leader(s[:n])
        mix_with_uniform(top, max(gap_share(parameters.loss, s[:n], top), rate), distributions[i][:n])
        widen(eligible, i, distributions[i])
        if parameters.as_of_prediction:
            evidence[i] = s
            widen(eligible, i, evidence[i])


@compiled
def _score(parameters: _Parameters, state: GaptronState, indices: IntArray, values: FloatArray, s: FloatArray) -> None:
    s[:] = 0.0
    score(state.direction, indices, values, s)
    s *= _multiplier(parameters, state)


@compiled
def _fold(parameters: _Parameters, state: GaptronState, rounds: Rounds) -> None:
    K = state.direction.shape[1]
    s, coefficients = np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.full_information:
            y, weight = rounds.true_labels[t], 1.0
        else:
            y, weight = (rounds.labels[t] if rounds.correct[t] else -1), 1.0 / rounds.propensities[t]
        place = place_of(rounds.eligible, t, y) if y >= 0 else -1
        if place >= 0:
            if parameters.as_of_prediction:
                s[:] = rounds.evidence[t]
            else:
                _score(parameters, state, indices, values, s)
            n = narrow(rounds.eligible, t, s)
            if n > 1:
                surrogate(parameters.loss, s[:n], place, coefficients[:n])
                widen(rounds.eligible, t, coefficients)
                _step(parameters, state, weight, indices, values, coefficients)
        state.rounds[()] += 1
        if state.rounds.item() % _REFRESH == 0:
            state.squared_norm[()] = squared_norm(state.direction.ravel())


@compiled
def _step(
    parameters: _Parameters,
    state: GaptronState,
    weight: float,
    indices: IntArray,
    values: FloatArray,
    coefficients: FloatArray,
) -> None:
    """Take one step against the gradient weight · x ⊗ coefficients; overwrite `coefficients` (K,)."""
    if parameters.mode == _ADAPTIVE:
        coefficients *= weight
        adaptive_step(
            parameters.step, parameters.radius, coefficients, indices, values, state.direction, state.gradient_sums
        )
        return
    step = 1.0 if parameters.mode == _AVERAGED else parameters.step / state.scale.item()
    for k in range(len(coefficients)):
        coefficients[k] *= -step * weight
    change = add_outer(state.direction, coefficients, indices, values)
    state.squared_norm[()] = max(0.0, state.squared_norm.item() + change)
    if parameters.mode == _FIXED:
        scale_into_ball(parameters.radius, state.direction, state.scale, state.squared_norm)


_SOURCE = "van der Hoeven 2020"
THEOREMS: dict[LossName, int] = {"logistic": 1, "hinge": 2, "smooth_hinge": 3}  # under bandit feedback, add 3
LOSSES: dict[LossName, str] = {"logistic": "base-2 logistic", "hinge": "hinge", "smooth_hinge": "smooth hinge"}
_FULL = {"logistic": "K X²‖U‖²/ln 2", "hinge": "K²X²‖U‖²/(2(K - 1))", "smooth_hinge": "2K X²‖U‖²"}
_TUNED = {
    "logistic": "max{2K²X²D²/ln 2, 2KXD √(T/ln 2)}",
    "hinge": "max{K³X²D²/(K - 1), 2KXD √(T/2)}",
    "smooth_hinge": "max{4K²X²D², 2KXD √(2T)}",
}
_COVERED = (
    "learning_rate theorem with eta_scale at most 1, under full information, or with a radius under bandit feedback"
)


def _adaptive_guarantee(learner: Gaptron) -> str:
    nothing = uncovered("AdaGrad's step for each feature is not that of the theorems", _COVERED)
    if learner.radius is None:
        return nothing
    return (
        f"{nothing} The regret on the linearized losses, against any U whose weights for each feature have norm at "
        "most D, is at most Σ_i (2D²/η + η) √G_i, where η = eta_scale/X and G_i is the sum of squared gradients of "
        "feature i (Duchi, Hazan and Singer 2011)."
    )


def _too_large(learner: Gaptron, step: float) -> bool:
    """Check whether a step, which is κ with dual averaging, is more than the surrogate gap pays for."""
    gamma = None
    if not learner.needs_true_label:
        gamma = 1.0 if learner.falls else max(_schedule(learner).least, _gap_of(learner))
    return not step <= safe_step(learner.loss, learner.problem, gamma) * ROUNDING


def _full_guarantee(learner: Gaptron, step: float) -> str:
    if _too_large(learner, step):
        return uncovered("the step exceeds what the surrogate gap pays for", _COVERED)
    bound = "‖U‖²/(2η), where η is the learning_rate"
    if learner.learning_rate == "theorem":
        bound = _FULL[learner.loss] + (" divided by eta_scale" if learner.eta_scale < 1.0 else "")
    return (
        f"Expected mistakes exceed the {LOSSES[learner.loss]} loss of {within(learner.radius)} by at most {bound}, "
        f"for any sequence of rounds ({_SOURCE}, Theorem {THEOREMS[learner.loss]}). {AT_ONCE}"
        + (f" {LATE}" if learner.as_of_prediction else "")
    )


def _bandit_guarantee(learner: Gaptron, step: float) -> str:
    loss, theorem, named = learner.loss, THEOREMS[learner.loss] + 3, learner.learning_rate == "theorem"
    if learner.radius is None:
        return uncovered("the theorems under bandit feedback need W in a ball, and no radius is set", _COVERED)
    if _too_large(learner, step):
        return uncovered("the step exceeds what the surrogate gap pays for", _COVERED)
    if learner.falls:
        bound, source = "D²/(2κγ_T) + ((K - 1)/K) Σ γ_t after T rounds, with κ = step/γ_t", "the proof of "
    elif learner.horizon is not None and named and math.isclose(learner.eta_scale, 1.0):
        most = counted(tuned_bound(loss, learner.problem, learner.radius, learner.horizon))
        bound, source = f"{_TUNED[loss]} = {most} after T = {learner.horizon:,} rounds", ""
    elif (gamma := _schedule(learner).least) == 0.0:
        most = counted(learner.radius**2 / (2.0 * step))
        bound, source = f"D²/(2η) = {most} after any number of rounds, with γ = 0 and step η = {step:.4g}", ""
    else:
        bound, source = f"D²/(2η) + γT (K - 1)/K after T rounds, with γ = {gamma:.4g} and step η", "the proof of "
    with_averaging = ", with dual averaging" if learner.falls else ""
    return (
        f"Expected mistakes exceed the expected {LOSSES[loss]} loss of {within(learner.radius)} by at most {bound} "
        f"({_SOURCE}, {source}Theorem {theorem}{with_averaging}). {AT_ONCE}"
    )


@compiled
def adaptive_step(
    step: float,
    radius: float,
    coefficients: FloatArray,
    indices: IntArray,
    values: FloatArray,
    weights: FloatArray,
    gradient_sums: FloatArray,
) -> None:
    """Take one step against the gradient x ⊗ coefficients; update weights (d, K) and gradient_sums (d,) in place.

    For each feature i, G_i += ‖c‖² x_i² and W_i -= (step / √G_i) x_i c, where c is `coefficients`; then W_i is
    projected onto the ball of this radius D. Against any U with rows in the ball, the regret on linear losses is at
    most Σ_i (2D² / step + step) √G_i.
    """
    size = squared_norm(coefficients)
    for position in range(len(values)):
        i, x = indices[position], values[position]
        gradient_sums[i] += size * x * x
        if gradient_sums[i] <= 0.0:
            continue
        w, factor = weights[i], step * x / math.sqrt(gradient_sums[i])
        for k in range(len(coefficients)):
            w[k] -= factor * coefficients[k]
        if radius < math.inf:
            _keep_in_ball(radius, w)


@compiled
def _keep_in_ball(radius: float, w: FloatArray) -> None:
    norm = math.sqrt(squared_norm(w))
    if norm > radius:
        for k in range(len(w)):
            w[k] *= radius / norm

"""The guarantees of Gaptron, for each choice of its hyperparameters.

Van der Hoeven 2020, Theorems 1-6 with the printed errors corrected. The same proofs cover any smaller step, any fixed
γ, and by dual averaging any non-increasing γ_t.
"""

import math
from typing import NamedTuple

from learners.base import Problem
from learners.mathematics.exploration import Schedule
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.guarantees import AT_ONCE, LATE, ROUNDING, uncovered, within
from learners.mathematics.losses import LossName

_SOURCE = "van der Hoeven 2020"
_THEOREMS: dict[LossName, int] = {"logistic": 1, "hinge": 2, "smooth_hinge": 3}
_LOSSES: dict[LossName, str] = {"logistic": "base-2 logistic", "hinge": "hinge", "smooth_hinge": "smooth hinge"}
_FULL = {"logistic": "K X²‖U‖²/ln 2", "hinge": "K²X²‖U‖²/(2(K - 1))", "smooth_hinge": "2K X²‖U‖²"}
_TUNED = {
    "logistic": "max{2K²X²D²/ln 2, 2KXD √(T/ln 2)}",
    "hinge": "max{K³X²D²/(K - 1), 2KXD √(T/2)}",
    "smooth_hinge": "max{4K²X²D², 2KXD √(2T)}",
}
_COVERED = (
    "learning_rate theorem with eta_scale at most 1, under full information, or with a radius under bandit feedback"
)


class Settings(NamedTuple):
    """The settings that the guarantee depends on."""

    loss: LossName
    problem: Problem
    full_information: bool
    as_of_prediction: bool
    step: float | None  # η, or κ if gradients are averaged; None for the adaptive step
    named: bool  # whether learning_rate is "theorem"
    eta_scale: float
    exploration: Schedule
    falls: bool  # whether γ_t falls
    horizon: int | None
    radius: float | None


def guarantee_of(settings: Settings) -> str:
    """Return what is proved, where, and under which assumptions."""
    if settings.step is None:
        return _adaptive(settings)
    return _full_information(settings, settings.step) if settings.full_information else _bandit(settings, settings.step)


def _adaptive(settings: Settings) -> str:
    nothing = uncovered("AdaGrad's step for each feature is not that of the theorems", _COVERED)
    if settings.radius is None:
        return nothing
    return (
        f"{nothing} The regret on the linearized losses, against any U whose weights for each feature have norm at "
        "most D, is at most Σ_i (2D²/η + η) √G_i, where η = eta_scale/X and G_i is the sum of squared gradients of "
        "feature i (Duchi, Hazan and Singer 2011)."
    )


def _too_large(step: float, safe: float) -> bool:
    return not step <= safe * ROUNDING


def _full_information(settings: Settings, step: float) -> str:
    if _too_large(step, safe_step(settings.loss, settings.problem)):
        return uncovered("the step exceeds what the surrogate gap pays for", _COVERED)
    bound = "‖U‖²/(2η), where η is the learning_rate"
    if settings.named:
        bound = _FULL[settings.loss] + (" divided by eta_scale" if settings.eta_scale < 1.0 else "")
    return (
        f"Expected mistakes exceed the {_LOSSES[settings.loss]} loss of {within(settings.radius)} by at most {bound}, "
        f"for any sequence of rounds ({_SOURCE}, Theorem {_THEOREMS[settings.loss]}). {AT_ONCE}"
        + (f" {LATE}" if settings.as_of_prediction else "")
    )


def _bandit(settings: Settings, step: float) -> str:
    loss, theorem = settings.loss, _THEOREMS[settings.loss] + 3
    if settings.radius is None:
        return uncovered("the theorems under bandit feedback need W in a ball, and no radius is set", _COVERED)
    gamma = 1.0 if settings.falls else settings.exploration.least
    if _too_large(step, safe_step(loss, settings.problem, gamma)):
        return uncovered("the step exceeds what the surrogate gap pays for", _COVERED)
    if settings.falls:
        bound, source = "D²/(2κγ_T) + ((K - 1)/K) Σ γ_t after T rounds, with κ = step/γ_t", "the proof of "
    elif settings.horizon is not None and settings.named and math.isclose(settings.eta_scale, 1.0):
        bound, source = f"{_TUNED[loss]} after T = {settings.horizon:,} rounds", ""
    else:
        bound, source = f"D²/(2η) + γT (K - 1)/K after T rounds, with γ = {gamma:.4g} and step η", "the proof of "
    with_averaging = ", with dual averaging" if settings.falls else ""
    return (
        f"Expected mistakes exceed the expected {_LOSSES[loss]} loss of {within(settings.radius)} by at most {bound} "
        f"({_SOURCE}, {source}Theorem {theorem}{with_averaging}). {AT_ONCE}"
    )

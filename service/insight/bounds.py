"""The number in a learner's guarantee, where the guarantee has one that the log determines."""

import math
from typing import Any, NamedTuple

from learners.base import AnyLearner
from learners.mathematics.gaptron_schedules import anytime_constant, safe_step, tuned_exploration

_NO_NUMBER = (
    "This bound is not a number that the log determines: it depends on a comparator or a margin that nobody has "
    "measured, so the page shows the sentence alone."
)
_NO_THEOREM = "No theorem covers these settings, so there is no bound to compare with."
_CONDITION = (
    "The number is the part of the bound that the settings determine. The theorem adds the surrogate loss of the best "
    "predictor in the ball, which is unknown; the line on the page holds if a predictor without loss exists."
)


class Bound(NamedTuple):
    """The proven bound on expected mistakes beyond the comparator's loss."""

    mistakes: float | None  # None if no number is known
    note: str

    def accuracy(self, rounds: int) -> float | None:
        """Return the least expected accuracy if the comparator has no loss; None if no number is known."""
        return None if self.mistakes is None or not rounds else max(0.0, 1.0 - self.mistakes / rounds)


def bound_of(learner: AnyLearner, rounds: int) -> Bound:
    """Return the bound of a learner after some rounds."""
    if learner.guarantee.startswith("No theorem"):
        return Bound(None, _NO_THEOREM)
    mistakes = _of_gaptron(learner, rounds) if learner.algorithm == "gaptron" and rounds else None
    return Bound(None, _NO_NUMBER) if mistakes is None else Bound(mistakes, _CONDITION)


def _of_gaptron(learner: Any, rounds: int) -> float | None:
    """Return the bound of Gaptron with a radius D: Van der Hoeven 2020, Theorems 1-6, as its guarantee states it."""
    if learner.radius is None or learner.learning_rate != "theorem":
        return None
    square, share = learner.radius**2, learner.eta_scale
    if learner.needs_true_label:
        return float(square / (2.0 * share * safe_step(learner.loss, learner.problem)))
    k = learner.problem.n_labels
    last, explored = _explored(learner, rounds)
    step = share * safe_step(learner.loss, learner.problem, last)  # κγ_T
    return float(square / (2.0 * step) + (k - 1) / k * explored)


def _explored(learner: Any, rounds: int) -> tuple[float, float]:
    """Return γ_T, and an upper bound on the sum of γ_t over T rounds."""
    if not learner.falls:
        gamma = learner.exploration
        if learner.horizon is not None:
            gamma = tuned_exploration(learner.loss, learner.problem, learner.radius, learner.horizon)
        return gamma, gamma * rounds
    constant = math.sqrt(learner.problem.n_labels)
    if learner.exploration == "theorem":
        constant = anytime_constant(learner.loss, learner.problem, learner.radius)
    least, root = learner.least_exploration, math.sqrt(rounds)
    return min(1.0, max(constant / root, least)), min(float(rounds), 2.0 * constant * root + least * rounds)

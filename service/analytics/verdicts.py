"""Verdicts and bounds: whether a model's decisions have settled, and what its theorem guarantees."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from learners.base import AnyLearner
from learners.mathematics.gaptron_schedules import anytime_constant, safe_step, tuned_exploration
from service.analytics.estimates import Estimate, Subject, label_value, observed, uniform_value
from service.replicas.statistics import RoundStatistics
from service.replicas.sums import MOST_LABELS, Epoch, joined
from service.schemas.statistics import VerdictWord

LEAST_ROUNDS = 100  # latest rounds below which every model is exploring: an interval of a share is then wider than 0.2
SPREAD = 0.25  # concentration below which decisions are spread, on the scale from 0 (uniform) to 1 (certain)
CONCENTRATED = 0.85  # minimum concentration of nearly certain decisions
ONE_LABEL = 0.95  # minimum share of the latest rounds for one label to have nearly all traffic
LEAST_EXPLORATION = 0.001  # mean probability of another answer below which no exploration is left


class Verdict(NamedTuple):
    """A verdict, with its reason in one sentence."""

    verdict: VerdictWord
    reason: str


class _Case(NamedTuple):
    subject: Subject
    statistics: RoundStatistics
    latest: Epoch
    certainty: float  # mean propensity of the latest rounds

    @property
    def explores(self) -> bool:
        """Whether the model still explores, or needs no exploration."""
        return not self.subject.explores or 1.0 - self.certainty >= LEAST_EXPLORATION

    def value_of(self, label: int) -> Estimate:
        """Return the estimated reward of always answering a label."""
        return label_value(self.statistics.by_label, label, has_contexts=self.subject.has_contexts)


def verdict_of(subject: Subject, statistics: RoundStatistics) -> Verdict:
    """Judge whether a model's decisions have settled."""
    latest = joined(statistics.latest)
    if latest.rounds < LEAST_ROUNDS or not latest.weighed:
        return Verdict("exploring", f"There are {latest.rounds} recent rounds; a verdict needs {LEAST_ROUNDS}.")
    case = _Case(subject, statistics, latest, latest.propensity / latest.weighed)
    uniform = 1.0 / statistics.labels if statistics.labels else 0.0
    concentration = (case.certainty - uniform) / (1.0 - uniform) if uniform < 1.0 else 1.0
    chosen = f"the answered label had probability {case.certainty:.3f} on average"
    if concentration < SPREAD:
        return Verdict("exploring", f"Decisions are spread: {chosen} over the last {latest.rounds:,} rounds.")
    if concentration < CONCENTRATED:
        return Verdict("leaning", f"Decisions have a preference: {chosen} over the last {latest.rounds:,} rounds.")
    if not latest.labels:  # answers that are not one of K labels are judged by their certainty alone
        certain = f"answers have probability {case.certainty:.3f} on average"
        converged = Verdict("converged", f"Decisions are nearly certain: {certain}, and others are still tried.")
        collapsed = f"No exploration is left: {certain}, so later rounds cannot show a better answer."
        return converged if case.explores else Verdict("collapsed", collapsed)
    top = max(range(len(latest.labels)), key=latest.labels.__getitem__)
    share = latest.labels[top] / latest.rounds
    if top < MOST_LABELS and share >= ONE_LABEL:
        return _of_one_label(case, top, share)
    return _of_several_labels(case)


def _of_one_label(case: _Case, top: int, share: float) -> Verdict:
    """Judge a model that nearly always answers one label, by the values of the other labels."""
    name = case.subject.name_of
    value = case.value_of(top)
    others = {k: case.value_of(k) for k in _active(case.statistics) if k != top}
    better = _best({k: other for k, other in others.items() if other.low > value.high})
    traffic = f"{share:.1%} of the last {case.latest.rounds:,} rounds have {name(top)!r}"
    if better is not None:
        k, other = better
        reason = f"{traffic}, but {name(k)!r} is worth {_shown(other)}, which exceeds {_shown(value)}."
        return Verdict("collapsed", reason)
    rival = _best({k: other for k, other in others.items() if other.high >= value.low})
    if rival is None:
        return Verdict("converged", f"{traffic}; it is worth {_shown(value)}, and every other label less.")
    k, other = rival
    unclear = f"{traffic}, worth {_shown(value)}, but {name(k)!r} may be as good ({_shown(other)})"
    if case.explores:
        return Verdict("leaning", f"{unclear}, and is still tried.")
    return Verdict("collapsed", f"{unclear}, and no exploration is left to find out.")


def _of_several_labels(case: _Case) -> Verdict:
    """Judge a model whose decisions are nearly certain and depend on the context, by its reward."""
    sums, latest = case.statistics.by_label, case.latest
    earned = observed(latest.rounds, latest.reward, latest.squares)
    best = _best({k: case.value_of(k) for k in _active(case.statistics)})
    served = f"Decisions are nearly certain and use several labels; the latest reward is {_shown(earned)}"
    if best is not None and best[1].low > earned.high:
        constant = f"always {case.subject.name_of(best[0])!r} is worth {_shown(best[1])}"
        return Verdict("collapsed", f"{served}, but {constant}.")
    uniform = uniform_value(sums)
    if earned.low > uniform.high:
        return Verdict("converged", f"{served}, which exceeds that of uniform draws, {_shown(uniform)}.")
    unclear = f"{served}, which is not clearly above that of uniform draws, {_shown(uniform)}"
    if case.explores:
        return Verdict("leaning", f"{unclear}; other labels are still tried.")
    return Verdict("collapsed", f"{unclear}, and no exploration is left to find out.")


def _active(statistics: RoundStatistics) -> Sequence[int]:
    retired = set(statistics.retired)
    return [k for k in range(min(statistics.labels or 0, MOST_LABELS)) if k not in retired]


def _best(values: dict[int, Estimate]) -> tuple[int, Estimate] | None:
    """Return the label with the largest value, preferring labels with rounds."""
    if not values:
        return None
    return max(values.items(), key=lambda item: (item[1].mean is not None, item[1].mean or 0.0, -item[0]))


def _shown(value: Estimate) -> str:
    if value.mean is None:
        return "unknown, without a round"
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


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

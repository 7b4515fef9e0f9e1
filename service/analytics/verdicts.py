"""Verdicts and bounds: whether a model's decisions have settled, and what its theorem guarantees."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from service.analytics.estimates import (
    NEARLY_COVERED,
    REPRESENTED,
    UNKNOWN,
    Chance,
    Estimate,
    Subject,
    chance_of,
    label_value,
    metric_name,
    observed,
)
from service.replicas.statistics import RoundStatistics
from service.replicas.sums import MOST_LABELS, Epoch, RewardCurve, joined
from service.schemas.statistics import VerdictWord

LEAST_ROUNDS = 100  # with fewer latest rounds, every model counts as exploring: intervals may be 0.2 wide or more
ENOUGH_ROUNDS = 1000  # minimum latest rounds for the verdict `at_chance`
SPREAD = 0.25  # concentration below which decisions are spread, on the scale from 0 (uniform) to 1 (certain)
CONCENTRATED = 0.85  # minimum concentration of nearly certain decisions
ONE_LABEL = 0.95  # a label with at least this share of the latest rounds has nearly all traffic
LEAST_EXPLORATION = 0.001  # if concentration is nearer to 1 than this, no exploration is left
STRETCHES = 7  # maximum number of stretches of the earlier log; the latest rounds are compared with the best one
LARGE, LARGE_PART = 0.05, 0.2  # a difference of rewards is large if it is at least this, or this part of the reward
_DROP_LEVEL = 0.99  # confidence level for stretches: high, because the best of several stretches is compared


class Verdict(NamedTuple):
    """A verdict, with its reason in one sentence."""

    verdict: VerdictWord
    reason: str


@dataclasses.dataclass(frozen=True)
class _Case:
    subject: Subject
    statistics: RoundStatistics
    latest: Epoch
    certainty: float  # mean propensity of the latest rounds

    @property
    def explores(self) -> bool:
        """Whether the model still explores, or needs no exploration."""
        return not self.subject.needs_exploration or 1.0 - self.concentration >= LEAST_EXPLORATION

    @property
    def has_choice(self) -> bool:
        """Whether more than one label was eligible in any of the latest rounds."""
        return self.latest.uniform < self.latest.weighed

    @property
    def concentration(self) -> float:
        """How certain decisions are, from 0 (uniform draws among the eligible labels) to 1, if there is a choice.

        Without K labels, it is the mean propensity.
        """
        uniform = self.latest.uniform / self.latest.weighed
        return (self.certainty - uniform) / (1.0 - uniform)

    @property
    def earned(self) -> Estimate:
        """The mean reward of the latest rounds."""
        return observed(self.latest.rounds, self.latest.reward, self.latest.squares)

    @property
    def served(self) -> Estimate:
        """The mean reward of all counted rounds."""
        curve = self.statistics.curve
        return observed(sum(curve.rounds), sum(curve.rewards), sum(curve.squares))

    @cached_property
    def chance(self) -> Chance | None:
        """The estimate of the reward of uniform draws."""
        return chance_of(self.subject, self.statistics)

    @property
    def beaten(self) -> Chance | None:
        """The estimated reward of uniform draws if the model's reward is clearly above it; otherwise None."""
        most = 1.0 if self.chance is None else self.chance.estimate.high
        # The latest rounds may be too few for a clear result; then the reward of all rounds must clearly exceed it.
        is_above = self.earned.low > most or ((self.earned.mean or 0.0) > most < self.served.low)
        return self.chance if is_above else None

    @property
    def at_chance(self) -> Estimate | None:
        """The estimated reward of uniform draws if the reward of enough latest rounds is not much larger; else None.

        Rules bound what a model can earn, and costs may be worth more than rewards, so these models are not compared.
        """
        if self.subject.rules is not None or self.subject.cost_weight:
            return None
        if self.chance is None or self.chance.covered < REPRESENTED or self.latest.rounds < ENOUGH_ROUNDS:
            return None
        mean, low, high, _ = self.chance.estimate
        earned = self.earned.mean or 0.0
        if mean is None or self.beaten is not None or earned > min(high, mean + min(LARGE, LARGE_PART * mean)):
            return None
        if earned - low > 2.0 * LARGE:  # too few draws explore to tell
            return None
        return self.chance.estimate

    def value_of(self, label: int) -> Estimate:
        """Return the estimated reward of always answering a label."""
        return label_value(self.subject, self.statistics, label)


def verdict_of(subject: Subject, statistics: RoundStatistics) -> Verdict:
    """Judge whether a model's decisions have settled, whether they beat chance, and whether they were better before."""
    latest = joined(statistics.latest)
    if latest.rounds < LEAST_ROUNDS:
        return Verdict("exploring", f"There are {latest.rounds} recent rounds; a verdict needs {LEAST_ROUNDS}.")
    if not latest.weighed:
        return Verdict("exploring", "No recent round has a propensity with a finite weight.")
    found = _judged(_Case(subject, statistics, latest, latest.propensity / latest.weighed))
    fall = _fall(statistics, latest, metric_name(subject, statistics))
    if fall is not None:
        is_collapsed = found.verdict == "collapsed"
        found = Verdict("collapsed", f"{found.reason} {fall}") if is_collapsed else Verdict("dropped", fall)
    if found.verdict not in ("collapsed", "dropped"):
        return found
    bounds = ["The model's rules bound what it answers and earns."] if subject.rules is not None else []
    bounds += ["The model gives up reward for lower costs."] if subject.cost_weight else []
    return found._replace(reason=" ".join([found.reason, *bounds]))


def _judged(case: _Case) -> Verdict:
    """Judge a model by its latest rounds and the values of its labels."""
    latest = case.latest
    if not case.has_choice:
        return Verdict("exploring", f"In each of the last {latest.rounds:,} rounds, only one label was eligible.")
    chosen = (
        f"the answered label had probability {case.certainty:.3f} on average over the last {latest.rounds:,} rounds"
    )
    if case.concentration < SPREAD:
        return Verdict("exploring", f"Decisions are spread: {chosen}.")
    if not latest.labels:  # answers that are not one of K labels are judged by their certainty alone
        return _of_certainty(case, chosen)
    top = max(range(len(latest.labels)), key=latest.labels.__getitem__)
    share = latest.labels[top] / latest.rounds
    if case.concentration >= CONCENTRATED and top < MOST_LABELS and share >= ONE_LABEL:
        return _of_one_label(case, top, share)
    return _of_several_labels(case, chosen)


def _of_certainty(case: _Case, chosen: str) -> Verdict:
    if case.concentration < CONCENTRATED:
        return Verdict("leaning", f"Decisions have a preference: {chosen}.")
    certain = f"answers have probability {case.certainty:.3f} on average"
    if case.explores:
        return Verdict("converged", f"Decisions are nearly certain: {certain}, and others are still tried.")
    return Verdict("collapsed", f"No exploration is left: {certain}, so later rounds cannot show a better answer.")


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
    if not case.explores:
        return Verdict("collapsed", f"{unclear}, and no exploration is left to find out.")
    if (chance := case.at_chance) is not None:
        return Verdict("at_chance", f"{unclear}, and uniform draws are worth {_shown(chance)}.")
    if not case.subject.needs_exploration:
        return Verdict("leaning", f"{unclear}; the true labels of further rounds will tell.")
    return Verdict("leaning", f"{unclear}, and is still tried.")


def _of_several_labels(case: _Case, chosen: str) -> Verdict:
    """Judge a model that answers several labels, by its reward."""
    earned, is_certain = case.earned, case.concentration >= CONCENTRATED
    best = _best({k: case.value_of(k) for k in _active(case.statistics)})
    served = f"{'Decisions are nearly certain' if is_certain else f'Decisions have a preference ({chosen})'}; "
    served += f"the latest {metric_name(case.subject, case.statistics)} is {_shown(earned)}"
    # A label's value is that of all rounds: if the world has become worse since, the latest reward alone is no match.
    if is_certain and best is not None and best[1].low > max(earned.high, case.served.high):
        constant = f"always {case.subject.name_of(best[0])!r} is worth {_shown(best[1])}"
        return Verdict("collapsed", f"{served}, but {constant}.")
    if (beaten := case.beaten) is not None:
        word: VerdictWord = "converged" if is_certain else "leaning"
        most, whole = beaten.estimate.high, f"and that of all rounds, {_shown(case.served)}, exceeds"
        above = "which exceeds" if earned.low > most else whole
        tried = "" if beaten.covered >= NEARLY_COVERED else " among the answers that were tried"
        return Verdict(word, f"{served}, {above} that of uniform draws{tried}, at most {most:.3f}.")
    if is_certain and not case.explores:
        unclear = "which is not clearly above that of uniform draws, and no exploration is left to find out"
        return Verdict("collapsed", f"{served}, {unclear}.")
    if (chance := case.at_chance) is not None:
        return Verdict("at_chance", f"{served}, no better than that of uniform draws, {_shown(chance)}.")
    if case.latest.rounds < ENOUGH_ROUNDS:
        return Verdict("exploring", f"{served}; more rounds will show whether uniform draws would get as much.")
    return Verdict("leaning", f"{served}, which is not clearly above that of uniform draws yet.")


def _fall(statistics: RoundStatistics, latest: Epoch, name: str) -> str | None:
    """Return a sentence if the latest mean is clearly and far below that of an earlier stretch; otherwise None.

    `name` is what the sentence calls the mean.
    """
    curve = statistics.curve
    most = min(max(LEAST_ROUNDS, sum(curve.rounds) // (STRETCHES + 1)), ENOUGH_ROUNDS)
    start, n = len(curve.rounds), 0
    while start and n < most:
        start, n = start - 1, n + curve.rounds[start - 1]
    now = observed(n, sum(curve.rewards[start:]), sum(curve.squares[start:]), _DROP_LEVEL)
    if n > latest.rounds:  # in a long curve, a single bucket may cover more rounds than `latest`
        now = observed(latest.rounds, latest.reward, latest.squares, _DROP_LEVEL)
    size = max(len(curve.rounds) - start, -(-start // STRETCHES))  # buckets per stretch
    before = {end: _stretch(curve, end - size, end) for end in range(start, size - 1, -size)}
    end, best = max(before.items(), key=lambda item: item[1].mean or 0.0, default=(0, UNKNOWN))
    if now.mean is None or best.mean is None or now.high >= best.low:
        return None
    if best.mean - now.mean < min(LARGE, LARGE_PART * best.mean):
        return None
    first = statistics.uncounted + (end - size) * curve.width + 1
    stretch = f"rounds {first:,} to {first + size * curve.width - 1:,}"
    lately = f"The {name} of the last {now.rounds:,} rounds is {_shown(now)}"
    return f"{lately}, but it was {_shown(best)} in {stretch} (intervals at {_DROP_LEVEL:.0%})."


def _stretch(curve: RewardCurve, start: int, end: int) -> Estimate:
    rewards, squares = sum(curve.rewards[start:end]), sum(curve.squares[start:end])
    return observed(sum(curve.rounds[start:end]), rewards, squares, _DROP_LEVEL)


def _active(statistics: RoundStatistics) -> Sequence[int]:
    retired = set(statistics.retired)
    return [k for k in range(min(statistics.labels or 0, MOST_LABELS)) if k not in retired]


def _best(values: dict[int, Estimate]) -> tuple[int, Estimate] | None:
    """Return the label with the largest value, preferring labels with rounds; None if there are no labels."""
    if not values:
        return None
    return max(values.items(), key=lambda item: (item[1].mean is not None, item[1].mean or 0.0, -item[0]))


def _shown(value: Estimate) -> str:
    if value.mean is None:
        return "unknown"
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


_NO_NUMBER = (
    "This bound is not a number that the log determines: it depends on a comparator or a margin that nobody has "
    "measured, so the page shows the sentence alone."
)
_NO_THEOREM = "No theorem covers these settings, so there is no bound to compare with."
_OF_EXPERTS = (
    "The number is the part of the bound that the settings determine, and abstentions count with their cost. The "
    "theorem adds the loss of the best expert, which is unknown; the line on the page holds if an expert never errs."
)
_CONDITION = (
    "The number is the part of the bound that the settings determine. The theorem adds the surrogate loss of the best "
    "predictor in the ball, which is unknown; the line on the page holds if a predictor without loss exists."
)


_WITHOUT_CLICK = " A mistake is a round without a click."
_WITH_RULES = "The theorem is about the learner's own distribution, which the rules change."


class Bound(NamedTuple):
    """The proven bound on the expected mistakes and costs of abstentions, beyond the comparator's loss."""

    mistakes: float | None  # None if no number is known
    note: str

    def reward(self, rounds: int) -> float | None:
        """Return the least expected mean reward if the comparator has no loss; None without a number or rounds."""
        return None if self.mistakes is None or not rounds else max(0.0, 1.0 - self.mistakes / rounds)


def bound_of(subject: Subject, rounds: int) -> Bound:
    """Return the bound of a model's learner after this number of rounds."""
    learner: Any = subject.learner
    if subject.moved > 0.0:
        return Bound(None, _WITH_RULES)
    if learner.guarantee.startswith("No theorem"):
        return Bound(None, _NO_THEOREM)
    if learner.algorithm == "adahedge":
        return Bound(learner.bound(rounds), _OF_EXPERTS)
    mistakes = learner.bound(rounds) if learner.algorithm == "gaptron" and rounds else None
    if mistakes is None:
        return Bound(None, _NO_NUMBER)
    return Bound(mistakes, _CONDITION + (_WITHOUT_CLICK if subject.reward == "clicks" else ""))

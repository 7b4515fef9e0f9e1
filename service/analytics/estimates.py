"""Estimates of mean rewards with confidence intervals, from the statistics of a model."""

from typing import Literal, NamedTuple

from learners.base import AnyLearner
from learners.evaluation.intervals import empirical_bernstein, wilson
from service.errors import StoreCorruptError
from service.models.costs import first_weight
from service.models.model import Model
from service.models.rules import moved_by
from service.models.summaries import Summary, learner_of
from service.replicas.statistics import SLOTS, RoundStatistics, decode_statistics
from service.replicas.sums import EVERY_DRAW, MOST_LABELS, LabelSums
from service.schemas.costs import Budget
from service.schemas.models import RewardMeaning
from service.schemas.rules import Rules
from service.store.values import ModelStats

REPRESENTED = 0.5
"""The minimum Σw of the rounds of an estimate with weights w, as a share of its mean: with less, there is no estimate.
A learner that seldom explores never draws what a policy would answer in some contexts. Σw is then too small."""


class Subject(NamedTuple):
    """What the statistics of a model depend on besides its rounds."""

    learner: AnyLearner
    labels: tuple[str, ...]  # the first `MOST_LABELS`, which are counted individually; empty if unknown
    has_actions: bool
    has_contexts: bool
    rules: Rules | None = None
    budget: float | None = None  # the mean cost to stay within
    cost_weight: float | None = None  # λ, at first if there is a budget; None if the model has no costs
    moved: float = 0.0  # the probability that rules may move in each round: see `service.models.rules.moved_by`
    reward: RewardMeaning = "accuracy"
    holdout_since: int | None = None  # number of the change that set the holdout; None without one, or if unknown
    silence: Literal["drop", "on_arrival", "at_window_close"] = (
        "drop"  # whether it makes rounds, and when feedback does
    )

    @property
    def needs_exploration(self) -> bool:
        """Whether the learner needs exploration; a learner that always gets the true label does not."""
        return not self.learner.needs_true_label

    def name_of(self, label: int) -> str:
        """Return the label with this number; a text such as "number 3" if the label is unknown."""
        return self.labels[label] if label < len(self.labels) else f"number {label}"


def subject_of(model: Model) -> Subject:
    """Return what a model's statistics depend on."""
    definition = model.definition
    labels = tuple(definition.labels[:MOST_LABELS])
    has_contexts = definition.features.size > 0
    return Subject(
        *(model.learner, labels, definition.actions is not None, has_contexts),
        *(definition.rules, _cost_of(definition.budget), first_weight(definition), moved_by(definition)),
        reward=definition.reward,
        holdout_since=None if definition.holdout is None else model.holdout_since,
        silence="drop" if definition.on_expiry == "drop" else definition.learn,
    )


def subject_of_summary(summary: Summary) -> Subject:
    """Return what the statistics of a listed model depend on; its labels are unknown."""
    has_contexts = summary.features.size > 0
    policies = summary.rules, _cost_of(summary.budget), first_weight(summary)
    fixed = learner_of(summary), (), summary.actions is not None, has_contexts
    return Subject(*fixed, *policies, reward=summary.reward)


def metric_of(subject: Subject, statistics: RoundStatistics) -> RewardMeaning:
    """Return what the mean reward is: `value` if a reward was neither 0 nor 1, or if the learner may abstain."""
    abstains = subject.learner.abstention_reward is not None
    return "value" if abstains or statistics.reward != statistics.correct else subject.reward


_NAMES = {"accuracy": "accuracy", "clicks": "click rate", "value": "mean reward"}


def metric_name(subject: Subject, statistics: RoundStatistics) -> str:
    """Return the name of the mean reward in a sentence."""
    return _NAMES[metric_of(subject, statistics)]


def _cost_of(budget: Budget | None) -> float | None:
    return None if budget is None else budget.cost


class CountedModel(NamedTuple):
    """The counters of a model, and its decoded statistics."""

    stats: ModelStats
    statistics: RoundStatistics


def counted_model(stats: ModelStats) -> CountedModel:
    """Decode a model's statistics, or zeros if it has none; raise `StoreCorruptError` or `NewerVersionError`."""
    try:
        return CountedModel(stats, decode_statistics(stats.statistics) if stats.statistics else RoundStatistics())
    except ValueError as error:
        raise StoreCorruptError(f"the published statistics of model {stats.name!r} cannot be read") from error


def fold_lag(stats: ModelStats) -> int:
    """Return the number of rounds in the log that the published statistics lack."""
    return max(0, stats.round_count - stats.statistics_rounds)


def snapshot_lag(stats: ModelStats) -> int:
    """Return the number of rounds in the log after the latest snapshot."""
    return max(0, stats.round_count - stats.snapshot_rounds)


def open_predictions(model: CountedModel, now: float) -> int:
    """Return the number of open predictions, with the start of the window rounded to 1/`SLOTS` of its length."""
    stats, statistics = model
    first = int(now // statistics.slot_seconds) - SLOTS + 1
    before = max((slot for slot in stats.predictions_by if slot < first), default=None)
    made = stats.predictions - (0 if before is None else stats.predictions_by[before])
    closed = sum(n for slot, n in statistics.recent if slot >= first)
    return max(0, made - closed - fold_lag(stats))


LEVEL = 0.95  # the default confidence level


class Estimate(NamedTuple):
    """A mean reward in [0, 1] with its interval; the mean is None if there are no rounds."""

    mean: float | None
    low: float
    high: float
    rounds: float  # the number of rounds; for a weighted mean, the effective number


UNKNOWN = Estimate(None, 0.0, 1.0, 0.0)


def observed(rounds: int, total: float, squares: float, level: float = LEVEL) -> Estimate:
    """Return the mean of rewards with Wilson's interval if each is 0 or 1, otherwise with the empirical Bernstein one.

    `total` is the sum of the rewards, and `squares` the sum of their squares. These sums are equal only if each reward
    is 0 or 1.
    """
    if not rounds:
        return UNKNOWN
    total = min(total, float(rounds))
    bits = squares == total
    low, high = wilson(total, rounds, level) if bits else empirical_bernstein(total, squares, rounds, 0.0, 1.0, level)
    return Estimate(total / rounds, low, high, rounds)


def label_reward(sums: LabelSums, label: int) -> Estimate:
    """Return the mean reward of the rounds that answered a label; `MOST_LABELS` means all other labels together."""
    if label >= len(sums.rounds):
        return UNKNOWN
    return observed(sums.rounds[label], sums.rewards[label], sums.squares[label])


def label_value(subject: Subject, statistics: RoundStatistics, label: int) -> Estimate:
    """Return the estimated mean reward of always answering a label, where it is eligible.

    Without contexts, no weights are needed: the estimate is the mean reward of the rounds that answered the label.
    """
    if not subject.has_contexts:
        return label_reward(statistics.by_label, label)
    until = slice(label, label + 1)
    return _of_policy(statistics.by_label, until, sum(statistics.eligible.until_answered[until]))


def uniform_value(statistics: RoundStatistics) -> Estimate:
    """Return the estimated mean reward of drawing uniformly among the eligible labels."""
    return _of_policy(statistics.chance, EVERY_DRAW, sum(statistics.by_label.weighed))


def _of_policy(sums: LabelSums, entries: slice, rounds: int) -> Estimate:
    """Return the weighted mean of some sums, if they represent the policy that they are weighted for.

    `rounds` is the number of rounds in which it could have acted.
    """
    return UNKNOWN if sum(sums.weights[entries]) < REPRESENTED * rounds else _weighted(sums, entries, rounds)


def _weighted(sums: LabelSums, entries: slice, rounds: int = 0) -> Estimate:
    """Return the self-normalized weighted mean (SNIPS) of some sums, of rewards r with weights w.

    Σw is expected to be `rounds`, or less if the policy answers what the log never does. Whatever such answers earn,
    the policy earns at least the expected Σw r and loses at least the expected Σw (1 - r), so the interval is between
    lower bounds of both. If Σw is larger than `rounds` by chance, they are scaled down. Without `rounds`, the draws in
    the sums are taken to represent the policy.
    """
    weights, rewards, squares, crossed, squared_rewards = [sum(column[entries]) for column in sums[4:]]
    if not weights > 0.0:
        return UNKNOWN
    effective, most = weights**2 / squares, max(weights, rounds)
    earned = _least(rewards, squared_rewards, rounds or effective) / most
    lost = _least(weights - rewards, squares - 2.0 * crossed + squared_rewards, rounds or effective) / most
    return Estimate(min(1.0, rewards / weights), earned, 1.0 - lost, effective)


def _least(total: float, squares: float, n: float) -> float:
    """Return n times the lower end of Wilson's interval of the mean of n terms, given their sum and that of squares.

    No term is negative. The interval is for terms that are 0 or of one size. For others, the size is their mean,
    weighted by size, which preserves the variance.
    """
    if not (total > 0.0 and squares > 0.0):
        return 0.0
    size = squares / total
    return size * n * wilson(min(total / size, n), n, LEVEL).low


NEARLY_COVERED = 0.9
"""The minimum `Chance.covered` of an estimate that tells what uniform draws get, not only those that were tried."""


class Chance(NamedTuple):
    """The estimate of the mean reward of uniform draws that verdicts use, and how much of them the log covers."""

    estimate: Estimate
    covered: float  # estimated share of the uniform distribution that the log covers; about 1 if it covers everything


def chance_of(subject: Subject, statistics: RoundStatistics) -> Chance | None:
    """Return the stratified estimate of the mean reward of those uniform draws that the log covers.

    There is none if answers are not single labels, or without rounds; and none for a learner that needs no
    exploration, if its rounds do not nearly cover uniform draws.

    The strata are draws of favourites (labels with p > 1/2) and explored draws (all others). The sum of 1/(K p) over
    draws of favourites estimates in how many of the n rounds a uniform draw answers the favourite. The weights of
    explored draws, which vary widely and are bounded here, then affect only the estimated reward of exploring, not the
    probability of exploring.
    """
    sums, n = statistics.chance, sum(statistics.by_label.weighed)
    covered = sum(sums.weights[EVERY_DRAW]) / max(1, n)
    if not n or (covered < NEARLY_COVERED and not subject.needs_exploration):
        return None
    share = min(1.0, sum(sums.weights[:1]) / n)
    favourite, explored = _weighted(sums, slice(0, 1)), _weighted(sums, slice(1, 2))
    pairs = zip(favourite[:3], explored[:3], strict=True)
    mean, low, high = [share * (one or 0.0) + (1.0 - share) * (other or 0.0) for one, other in pairs]
    return Chance(Estimate(None if explored.mean is None else mean, low, high, explored.rounds), covered)

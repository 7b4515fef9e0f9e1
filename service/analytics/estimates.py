"""Estimates of mean rewards with confidence intervals, from the statistics of a model."""

from typing import NamedTuple

from learners.base import AnyLearner
from learners.evaluation.intervals import empirical_bernstein, wilson
from service.errors import StoreCorruptError
from service.models.model import Model
from service.models.summaries import learner_of
from service.replicas.statistics import SLOTS, RoundStatistics, decode_statistics
from service.replicas.sums import CLIPS, EVERY_DRAW, MOST_LABELS, LabelSums
from service.schemas.models import ModelSummary
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
    return Subject(model.learner, labels, definition.actions is not None, definition.features.size > 0)


def subject_of_summary(summary: ModelSummary) -> Subject:
    """Return what the statistics of a listed model depend on; its labels are unknown."""
    return Subject(learner_of(summary), (), summary.actions is not None, summary.features.size > 0)


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


def _weighted(sums: LabelSums, labels: slice) -> Estimate:
    """Return the self-normalized weighted mean (SNIPS), with Wilson's interval for the effective number of rounds.

    With weights w, rewards r and mean v, the effective number is the smaller of two. One is Kish's, (Σw)²/Σw².
    The other, at least 1, is the number of unweighted rewards of 0 or 1 whose mean, if it were v, would have the
    variance estimated for v, Σw²(r - v)²/(Σw)².
    """
    weights = sum(sums.weights[labels])  # Σw
    if not weights > 0.0:
        return UNKNOWN
    squares = sum(sums.squared_weights[labels])  # Σw²
    mean = min(1.0, sum(sums.reward_weights[labels]) / weights)
    effective = weights**2 / squares
    spread = sum(sums.squared_reward_weights[labels]) - 2.0 * mean * sum(sums.reward_squared_weights[labels])
    spread += mean * mean * squares  # Σw²(r - v)²
    if spread > 0.0 and 0.0 < mean < 1.0:
        effective = min(effective, max(1.0, mean * (1.0 - mean) / (spread / weights**2)))
    low, high = wilson(mean * effective, effective, LEVEL)
    return Estimate(mean, low, high, effective)


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

    `rounds` is the number of rounds in which it could have acted, which is the mean of Σw. If Σw is smaller, the
    interval allows every reward in the share of the rounds that is missing.
    """
    share = min(1.0, sum(sums.weights[entries]) / max(1, rounds))
    if share < REPRESENTED:
        return UNKNOWN
    mean, low, high, effective = _weighted(sums, entries)
    return Estimate(mean, share * low, share * high + (1.0 - share), effective)


NEARLY_COVERED = 0.9
"""The minimum `Chance.covered` of an estimate that tells what uniform draws get, not only those that were tried."""


class Chance(NamedTuple):
    """An estimate of the mean reward of uniform draws, and how much of their distribution the log covers."""

    estimate: Estimate
    covered: float  # estimated share of the uniform distribution that the log covers; about 1 if it covers everything


def chances(subject: Subject, statistics: RoundStatistics) -> list[Chance]:
    """Return estimates of the mean reward of uniform draws.

    There are none if answers are not single labels, or without rounds; and none for a learner that needs no
    exploration, if its rounds do not nearly cover uniform draws.

    The first estimate is self-normalized. The others are stratified into draws of favourites (labels with p > 1/2) and
    explored draws (all others). The sum of 1/(K p) over draws of favourites estimates in how many of the n rounds a
    uniform draw answers the favourite. The weights of explored draws, which vary widely, then affect only the estimated
    reward of exploring, not the probability of exploring. Each stratified estimate bounds these weights by a different
    one of `CLIPS`.
    """
    chance, n = statistics.chance, sum(statistics.by_label.weighed)
    covered = sum(chance.weights[EVERY_DRAW]) / max(1, n)
    if not n or (covered < NEARLY_COVERED and not subject.needs_exploration):
        return []
    found = [Chance(_weighted(chance, EVERY_DRAW), covered)]
    favourite, share = _weighted(chance, slice(0, 1)), sum(chance.weights[:1]) / n
    if share >= 1.0:
        return found
    for i in range(1, len(CLIPS) + 1):
        explored, weights = _weighted(chance, slice(i, i + 1)), sum(chance.weights[i : i + 1])
        pairs = zip(favourite[:3], explored[:3], strict=True)
        mean, low, high = [share * (one or 0.0) + (1.0 - share) * (other or 0.0) for one, other in pairs]
        value = Estimate(None if explored.mean is None else mean, low, high, explored.rounds)
        found.append(Chance(value, weights / n / (1.0 - share)))
    return found

"""The answer of `GET /models/{name}/statistics`, from counters and sums."""

from typing import Literal

from service.insight.bounds import bound_of
from service.insight.curves import curve_answer
from service.insight.estimates import Estimate, observed, uniform_value
from service.insight.figures import CountedModel, fold_lag, open_predictions
from service.insight.label_answers import best_label, label_answers, labels_note, other_labels
from service.insight.subject import Subject
from service.insight.verdicts import verdict_of
from service.replicas.statistics import DELAY_BOUNDS, PROPENSITY_BOUNDS, RoundStatistics
from service.replicas.sums.latest_rounds import joined
from service.schemas.reports.statistics import (
    BoundAnswer,
    ExplorationAnswer,
    HistogramAnswer,
    LatestAnswer,
    MeanAnswer,
    StatisticsAnswer,
    VerdictAnswer,
)

_MICRO = 1e6
_RARE, _CERTAIN = PROPENSITY_BOUNDS.index(0.05), PROPENSITY_BOUNDS.index(0.9)


def statistics_answer(model: CountedModel, subject: Subject, now: float) -> StatisticsAnswer:
    """Return the statistics of a model for clients.

    Args:
        model: its counters and sums.
        subject: what its definition says.
        now: seconds since the epoch.
    """
    stats, statistics = model
    served, verdict = served_reward(statistics), verdict_of(subject, statistics)
    bound = bound_of(subject.learner, int(served.rounds))
    return StatisticsAnswer(
        model=stats.name,
        metric=metric_of(statistics),
        verdict=VerdictAnswer(verdict=verdict.verdict, reason=verdict.reason),
        rounds=stats.round_count,
        fold_lag=fold_lag(stats),
        since_round=statistics.uncounted + 1,
        predictions=stats.predictions,
        open_predictions=open_predictions(model, now),
        expired=stats.expired,
        damaged_rounds=stats.damaged,
        reward=mean_answer(served),
        latest=_latest(statistics),
        uniform=None if statistics.labels is None else mean_answer(uniform_value(statistics.by_label)),
        uniform_ips=uniform_ips(statistics),
        best_label=best_label(subject, statistics),
        labels=label_answers(subject, statistics),
        other_labels=other_labels(statistics),
        labels_note=labels_note(subject, statistics),
        curve=curve_answer(subject, statistics),
        bound=BoundAnswer(guarantee=subject.learner.guarantee, mistakes=bound.mistakes, note=bound.note),
        exploration=_exploration(statistics),
        propensities=_histogram(
            PROPENSITY_BOUNDS, statistics.propensities, statistics.propensity_sum, statistics.weighed
        ),
        delays=_histogram(
            DELAY_BOUNDS, statistics.delays, statistics.delay_seconds, statistics.rounds - statistics.expired
        ),
        holdout=_holdout(statistics),
    )


def mean_answer(estimate: Estimate) -> MeanAnswer:
    """Return an estimate for clients."""
    return MeanAnswer(mean=estimate.mean, low=estimate.low, high=estimate.high, rounds=estimate.rounds)


def served_reward(statistics: RoundStatistics) -> Estimate:
    """Return the mean reward of the answers served, since the details began, without the holdout."""
    curve = statistics.curve
    return observed(sum(curve.rounds), sum(curve.rewards), sum(curve.squares))


def latest_reward(statistics: RoundStatistics) -> Estimate:
    """Return the mean reward of the latest rounds."""
    latest = joined(statistics.latest)
    return observed(latest.rounds, latest.reward, latest.squares)


def metric_of(statistics: RoundStatistics) -> Literal["accuracy", "reward"]:
    """Return the name of the mean reward: `accuracy` if every reward was 0 or 1."""
    return "accuracy" if statistics.reward == statistics.correct else "reward"


def uniform_ips(statistics: RoundStatistics) -> float | None:
    """Return the estimated reward of uniform draws over all rounds (IPS); None without K labels or rounds."""
    if not statistics.labels or not statistics.weighed:
        return None
    return statistics.reward_weights / (statistics.weighed * statistics.labels)


def _latest(statistics: RoundStatistics) -> LatestAnswer:
    latest = joined(statistics.latest)
    return LatestAnswer(
        rounds=latest.rounds,
        reward=mean_answer(latest_reward(statistics)),
        mean_propensity=_share(latest.propensity, latest.weighed),
        surprisal_nats=_share(latest.surprisal_micronats / _MICRO, latest.weighed),
    )


def _exploration(statistics: RoundStatistics) -> ExplorationAnswer:
    n, counts = statistics.weighed, statistics.propensities
    return ExplorationAnswer(
        mean_propensity=_share(statistics.propensity_sum, n),
        share_at_most_5_percent=_share(sum(counts[: _RARE + 1]), n),
        share_above_90_percent=_share(sum(counts[_CERTAIN + 1 :]), n),
        surprisal_nats=_share(statistics.surprisal_micronats / _MICRO, n),
    )


def _histogram(bounds: tuple[float, ...], counts: tuple[int, ...], total: float, n: int) -> HistogramAnswer:
    return HistogramAnswer(bounds=list(bounds), counts=list(counts), mean=_share(total, n))


def _holdout(statistics: RoundStatistics) -> MeanAnswer | None:
    n = statistics.holdout_rounds
    return mean_answer(observed(n, statistics.holdout_reward, statistics.holdout_squares)) if n else None


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None

"""The statistics of one model, and of all models at a glance."""

import asyncio
import itertools
from collections import OrderedDict
from typing import Literal, NamedTuple

from service import costs
from service.access.keys import Names
from service.analytics.estimates import (
    UNKNOWN,
    CountedModel,
    Estimate,
    Subject,
    counted_model,
    fold_lag,
    label_reward,
    label_value,
    observed,
    open_predictions,
    subject_of,
    subject_of_summary,
    uniform_value,
)
from service.analytics.verdicts import bound_of, verdict_of
from service.compute import Compute
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError, StoreError
from service.registry.registry import Catalogue, stored_under
from service.replicas.statistics import DELAY_BOUNDS, PROPENSITY_BOUNDS, RoundStatistics
from service.replicas.sums import MOST_LABELS, Epoch, joined
from service.schemas.models import ModelSummary
from service.schemas.statistics import (
    BoundAnswer,
    CurveAnswer,
    CurvePoint,
    ExplorationAnswer,
    HistogramAnswer,
    LabelAnswer,
    LatestAnswer,
    MeanAnswer,
    ModelGlance,
    OtherLabelsAnswer,
    StatisticsAnswer,
    VerdictAnswer,
)
from service.store.stored_models import UnreadModel
from service.store.values import ModelStats


def _mean(estimate: Estimate) -> MeanAnswer:
    return MeanAnswer(mean=estimate.mean, low=estimate.low, high=estimate.high, rounds=estimate.rounds)


def curve_answer(subject: Subject, statistics: RoundStatistics) -> CurveAnswer:
    """Return the curve, with the estimate for uniform draws and the theorem's bound up to each point."""
    curve = statistics.curve
    sums = [itertools.accumulate(column) for column in curve[2:]]
    points = []
    for i, totals in enumerate(zip(*sums, strict=True)):
        rounds, reward, _, weights, weighted = totals
        mean = observed(curve.rounds[i], curve.rewards[i], curve.squares[i])
        points.append(
            CurvePoint(
                last_round=statistics.uncounted + min((i + 1) * curve.width, curve.places),
                rounds=curve.rounds[i],
                reward=_mean(mean),
                cumulative=reward / rounds if rounds else None,
                uniform=weighted / weights if weights and statistics.labels is not None else None,
                bound=bound_of(subject.learner, rounds).accuracy(rounds),
            )
        )
    return CurveAnswer(rounds_per_point=curve.width, points=points)


def sparkline(statistics: RoundStatistics, most: int) -> list[float | None]:
    """Return at most `most` mean rewards over the course of the log."""
    curve = statistics.curve
    size = max(1, -(-len(curve.rounds) // most))
    starts = range(0, len(curve.rounds), size)
    parts = [(sum(curve.rewards[i : i + size]), sum(curve.rounds[i : i + size])) for i in starts]
    return [reward / n if n else None for reward, n in parts]


LEAST_EVIDENCE = 10.0  # effective rounds from which the value of a label may be called the best
_ACTIONS = (
    "The answers are ids of actions, which requests bring. Their number is not bounded, and the service counts none of "
    "them individually."
)
_SEVERAL = "The answers are sets or rankings of labels, whose number is not bounded. They are not counted individually."


def label_answers(subject: Subject, statistics: RoundStatistics) -> list[LabelAnswer] | None:
    """Return the labels that are counted individually; None for answers that are not one of K labels."""
    if statistics.labels is None:
        return None
    latest, total = joined(statistics.latest), sum(statistics.by_label.rounds)
    known = range(min(statistics.labels, MOST_LABELS))
    return [_label_answer(subject, statistics, k, (total, latest)) for k in known]


def best_label(subject: Subject, statistics: RoundStatistics) -> str | None:
    """Return the active label with the largest value, among those with enough evidence."""
    known = range(min(statistics.labels or 0, MOST_LABELS))
    values = {k: _value(subject, statistics, k) for k in known if k not in statistics.retired}
    means = {k: value.mean for k, value in values.items() if value.mean is not None and value.rounds >= LEAST_EVIDENCE}
    return subject.name_of(max(means, key=means.__getitem__)) if means else None


def other_labels(statistics: RoundStatistics) -> OtherLabelsAnswer | None:
    """Return the labels that are not counted individually, together; None if there are none."""
    sums, latest = statistics.by_label, joined(statistics.latest)
    if statistics.labels is None or statistics.labels <= MOST_LABELS:
        return None
    return OtherLabelsAnswer(
        labels=statistics.labels - MOST_LABELS,
        rounds=_at(sums.rounds, MOST_LABELS),
        share=_at(sums.rounds, MOST_LABELS) / max(1, sum(sums.rounds)),
        latest_share=_at(latest.labels, MOST_LABELS) / max(1, sum(latest.labels)),
        reward=_mean(label_reward(sums, MOST_LABELS)),
    )


def labels_note(subject: Subject, statistics: RoundStatistics) -> str | None:
    """Say why there are no labels, or not all; None if all are there."""
    if subject.has_actions:
        return _ACTIONS
    if statistics.labels is None:
        return _SEVERAL if statistics.rounds else None
    if statistics.labels > MOST_LABELS:
        return f"The first {MOST_LABELS} labels are counted individually, the others together."
    return None


def _label_answer(subject: Subject, statistics: RoundStatistics, k: int, among: tuple[int, Epoch]) -> LabelAnswer:
    sums, (total, latest) = statistics.by_label, among
    return LabelAnswer(
        label=subject.name_of(k),
        retired=k in statistics.retired,
        rounds=_at(sums.rounds, k),
        share=_at(sums.rounds, k) / max(1, total),
        latest_share=_at(latest.labels, k) / max(1, latest.rounds),
        reward=_mean(label_reward(sums, k)),
        value=_mean(_value(subject, statistics, k)),
    )


def _value(subject: Subject, statistics: RoundStatistics, k: int) -> Estimate:
    return label_value(statistics.by_label, k, has_contexts=subject.has_contexts)


def _at(column: tuple[int, ...], k: int) -> int:
    return column[k] if k < len(column) else 0


_MICRO = 1e6
_RARE, _CERTAIN = PROPENSITY_BOUNDS.index(0.05), PROPENSITY_BOUNDS.index(0.9)


def statistics_answer(model: CountedModel, subject: Subject, now: float) -> StatisticsAnswer:
    """Return the statistics of a model for clients."""
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
        reward=_mean(served),
        latest=_latest(statistics),
        uniform=None if statistics.labels is None else _mean(uniform_value(statistics.by_label)),
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
        reward=_mean(latest_reward(statistics)),
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
    return _mean(observed(n, statistics.holdout_reward, statistics.holdout_squares)) if n else None


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


_MOST_POINTS = 32


def glance_of(summary: ModelSummary, stats: ModelStats, now: float) -> ModelGlance:
    """Return a model in a list; without its rewards if its statistics cannot be read."""
    glance = ModelGlance(
        name=summary.name,
        algorithm=summary.learner["algorithm"],
        label_count=summary.label_count,
        rounds=stats.round_count,
        predictions=stats.predictions,
        open_predictions=None,
        fold_lag=fold_lag(stats),
        metric="accuracy",
        reward=_mean(UNKNOWN),
        latest=_mean(UNKNOWN),
        verdict=None,
        spark=[],
    )
    try:
        model = counted_model(stats)
    except (StoreCorruptError, NewerVersionError):
        return glance
    glance.open_predictions = open_predictions(model, now)
    glance.metric = metric_of(model.statistics)
    glance.reward, glance.latest = (
        _mean(served_reward(model.statistics)),
        _mean(latest_reward(model.statistics)),
    )
    glance.verdict = verdict_of(subject_of_summary(summary), model.statistics).verdict
    glance.spark = sparkline(model.statistics, _MOST_POINTS)
    return glance


_MOST_SUBJECTS = 512


class GlancePage(NamedTuple):
    """Models in name order, as JSON, and the name to continue after; None if there are no more."""

    models: list[ModelGlance | UnreadModel]
    next_cursor: str | None


class Insights:
    """Reads the published statistics of models."""

    def __init__(self, environment: Environment, catalogue: Catalogue) -> None:
        self._store = environment.store
        self._compute: Compute = environment.compute
        self._models = environment.models
        self._now = environment.now
        self._catalogue = catalogue
        self._subjects: OrderedDict[tuple[str, bytes], Subject] = OrderedDict()

    async def read(self, name: str) -> bytes:
        """Return the statistics of a model as JSON; raise `StoreCorruptError` if they cannot be read."""
        stats, subject = await self._store.read_model_stats(name), await self._subject(name)
        if stats is None:
            raise _missing(name)
        return await self._compute.run_in_thread_if_costly(_cost(stats), name, _written, stats, subject, self._now())

    async def page(self, cursor: str, limit: int, own: Names) -> GlancePage:
        """Return up to `limit` models in `own` after the cursor. An unreadable one does not affect the others."""
        page = await self._catalogue.page(cursor, limit, own)
        found = await asyncio.gather(*[self._stats(item) for item in page.models])
        cost = sum(map(_cost, [stats for stats in found if isinstance(stats, ModelStats)]))
        models = await self._compute.run_in_thread_if_costly(
            cost, "", _glances, list(zip(page.models, found, strict=True)), self._now()
        )
        return GlancePage(models, page.next_cursor)

    async def _stats(self, item: ModelSummary | UnreadModel) -> ModelStats | UnreadModel | None:
        """Return the counters of a listed model; None if it is gone."""
        if isinstance(item, UnreadModel):
            return item
        try:
            return await self._store.read_model_stats(item.name)
        except StoreError as error:
            return UnreadModel(item.name, error)

    async def _subject(self, name: str) -> Subject:
        """Return the subject of a model, which is read again after each change."""
        listed = await self._store.list_model(name)
        if listed is None:
            raise _missing(name)
        version = listed.key.incarnation, listed.digest
        subject = self._subjects.get(version)
        if subject is None:
            stored = await stored_under(self._store, name)
            model = await self._models.read(stored)
            version, subject = (model.key.incarnation, model.digest), subject_of(model)
            self._subjects[version] = subject
        self._subjects.move_to_end(version)
        if len(self._subjects) > _MOST_SUBJECTS:
            self._subjects.popitem(last=False)
        return subject


def _missing(name: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"there is no model {quoted(name)}", "name")


def _cost(stats: ModelStats) -> int:
    return costs.GLANCE + len(stats.statistics) * costs.STATISTICS_BYTE


def _written(stats: ModelStats, subject: Subject, now: float) -> bytes:
    return statistics_answer(counted_model(stats), subject, now).model_dump_json().encode()


_Pair = tuple[ModelSummary | UnreadModel, ModelStats | UnreadModel | None]


def _glances(pairs: list[_Pair], now: float) -> list[ModelGlance | UnreadModel]:
    models: list[ModelGlance | UnreadModel] = []
    for summary, stats in pairs:
        if isinstance(stats, UnreadModel):
            models.append(stats)
        elif isinstance(summary, ModelSummary) and stats is not None:
            models.append(glance_of(summary, stats, now))
    return models

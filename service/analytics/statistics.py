"""The full statistics of one model, and a summary of every model."""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from service import costs
from service.access.keys import Names
from service.analytics import estimates
from service.analytics.estimates import UNKNOWN, CountedModel, Estimate, Subject, counted_model, observed
from service.analytics.uplift import uplift_of
from service.analytics.verdicts import bound_of, verdict_of
from service.environment import Environment
from service.errors import NewerVersionError, StoreError, WagerError
from service.json_values import JsonObject
from service.models.rules import guarantee_of
from service.models.summaries import Summary
from service.registry.catalogue import Catalogue, Entry, Page, Query
from service.registry.registry import missing, stored_under
from service.replicas.statistics import DELAY_BOUNDS, PROPENSITY_BOUNDS, RoundStatistics, decode_statistics
from service.replicas.sums import EVERY_DRAW, MOST_LABELS, joined
from service.schemas import statistics as schemas
from service.store.stored_models import UnreadModel
from service.store.values import ModelStats

LEAST_EVIDENCE = 10.0  # a label can be the best one only with at least this effective number of rounds
_MICRO = 1e6
_RARE, _CERTAIN = PROPENSITY_BOUNDS.index(0.05), PROPENSITY_BOUNDS.index(0.9)
_MOST_POINTS = 32  # maximum points in the sparkline of a listed model
_MOST_SUBJECTS = 512  # maximum cached subjects

_ACTIONS = (
    "The answers are ids of actions, which requests bring. Their number is not bounded, and the service counts none of "
    "them individually."
)
_SEVERAL = "The answers are sets or rankings of labels, whose number is not bounded. They are not counted individually."


def statistics_answer(model: CountedModel, subject: Subject, now: float) -> schemas.StatisticsAnswer:
    """Return the statistics of a model for clients."""
    stats, statistics = model
    served, verdict = _served_reward(statistics), verdict_of(subject, statistics)
    bound, uniform = bound_of(subject, int(served.rounds)), estimates.uniform_value(statistics)
    n, held, with_feedback = statistics.weighed, statistics.holdout_rounds, statistics.rounds - statistics.expired
    return schemas.StatisticsAnswer(
        model=stats.name,
        metric=estimates.metric_of(subject, statistics),
        verdict=schemas.VerdictAnswer(verdict=verdict.verdict, reason=verdict.reason),
        rounds=stats.round_count,
        fold_lag=estimates.fold_lag(stats),
        since_round=statistics.uncounted + 1,
        predictions=stats.predictions,
        open_predictions=estimates.open_predictions(model, now),
        expired=stats.expired,
        damaged_rounds=stats.damaged,
        reward=_mean(served),
        abstention=_abstention(subject, statistics),
        latest=_latest(statistics),
        uniform=None if statistics.labels is None else _mean(uniform),
        uniform_ips=None if uniform.mean is None else uniform_ips(statistics),
        best_label=_best_label(subject, statistics),
        labels=_label_answers(subject, statistics),
        other_labels=_other_labels(statistics),
        labels_note=_labels_note(subject, statistics),
        rules=_rule_answers(subject, statistics),
        costs=_cost_answer(subject, statistics),
        curve=_curve(subject, statistics, has_uniform=uniform.mean is not None),
        bound=schemas.BoundAnswer(
            guarantee=guarantee_of(subject.learner, subject.moved, weighs_costs=bool(subject.cost_weight)),
            mistakes=bound.mistakes,
            note=bound.note,
        ),
        exploration=_exploration(statistics),
        propensities=_histogram(PROPENSITY_BOUNDS, statistics.propensities, statistics.propensity_sum, n),
        delays=_histogram(DELAY_BOUNDS, statistics.delays, statistics.delay_seconds, with_feedback),
        holdout=_mean(observed(held, statistics.holdout_reward, statistics.holdout_squares)) if held else None,
        uplift=uplift_of(subject, statistics),
    )


def uniform_ips(statistics: RoundStatistics) -> float | None:
    """Return the IPS estimate of the reward of uniform draws; None without single labels, or without weights."""
    n = sum(statistics.by_label.weighed)
    return sum(statistics.chance.reward_weights[EVERY_DRAW]) / n if n else None


def _mean(estimate: Estimate) -> schemas.MeanAnswer:
    return schemas.MeanAnswer(mean=estimate.mean, low=estimate.low, high=estimate.high, rounds=estimate.rounds)


def _served_reward(statistics: RoundStatistics) -> Estimate:
    """Return the mean reward of all counted rounds, without the holdout."""
    curve = statistics.curve
    return observed(sum(curve.rounds), sum(curve.rewards), sum(curve.squares))


def _latest_reward(statistics: RoundStatistics) -> Estimate:
    latest = joined(statistics.latest)
    return observed(latest.rounds, latest.reward, latest.squares)


def _abstention(subject: Subject, statistics: RoundStatistics) -> schemas.AbstentionAnswer | None:
    """Return the abstentions, their cost and the accuracy of the other rounds; None if the model never abstains."""
    if subject.learner.abstention_reward is None and not statistics.abstained:
        return None
    rounds, reward = sum(statistics.curve.rounds), sum(statistics.curve.rewards)
    abstained = rounds - statistics.answered
    accuracy = observed(statistics.answered, statistics.answered_reward, statistics.answered_squares)
    return schemas.AbstentionAnswer(
        rounds=abstained,
        rate=_share(abstained, rounds),
        cost=abstained - (reward - statistics.answered_reward),
        accuracy=_mean(accuracy),
    )


def _latest(statistics: RoundStatistics) -> schemas.LatestAnswer:
    latest = joined(statistics.latest)
    return schemas.LatestAnswer(
        rounds=latest.rounds,
        reward=_mean(_latest_reward(statistics)),
        mean_propensity=_share(latest.propensity, latest.weighed),
        surprisal_nats=_share(latest.surprisal_micronats / _MICRO, latest.weighed),
    )


def _exploration(statistics: RoundStatistics) -> schemas.ExplorationAnswer:
    n, counts = statistics.weighed, statistics.propensities
    return schemas.ExplorationAnswer(
        mean_propensity=_share(statistics.propensity_sum, n),
        share_at_most_5_percent=_share(sum(counts[: _RARE + 1]), n),
        share_above_90_percent=_share(sum(counts[_CERTAIN + 1 :]), n),
        surprisal_nats=_share(statistics.surprisal_micronats / _MICRO, n),
    )


def _histogram(bounds: tuple[float, ...], counts: tuple[int, ...], total: float, n: int) -> schemas.HistogramAnswer:
    return schemas.HistogramAnswer(bounds=list(bounds), counts=list(counts), mean=_share(total, n))


def _share(part: float, total: int) -> float | None:
    return part / total if total else None


def _curve(subject: Subject, statistics: RoundStatistics, *, has_uniform: bool) -> schemas.CurveAnswer:
    """Return the curve, with the estimate for uniform draws and the theorem's bound up to each point."""
    curve, points = statistics.curve, list[schemas.CurvePoint]()
    sums = [itertools.accumulate(column) for column in curve[2:-1]]
    for i, (rounds, reward, _, weights, weighted) in enumerate(zip(*sums, strict=True)):
        points.append(
            schemas.CurvePoint(
                last_round=statistics.uncounted + min((i + 1) * curve.width, curve.places),
                rounds=curve.rounds[i],
                reward=_mean(observed(curve.rounds[i], curve.rewards[i], curve.squares[i])),
                cumulative=reward / rounds if rounds else None,
                uniform=weighted / weights if weights and has_uniform else None,
                bound=bound_of(subject, rounds).reward(rounds),
                last_at=datetime.fromtimestamp(curve.moments[i], UTC),
            )
        )
    return schemas.CurveAnswer(rounds_per_point=curve.width, points=points)


def _label_answers(subject: Subject, statistics: RoundStatistics) -> list[schemas.LabelAnswer] | None:
    if statistics.labels is None:
        return None
    sums, latest = statistics.by_label, joined(statistics.latest)
    return [
        schemas.LabelAnswer(
            label=subject.name_of(k),
            retired=k in statistics.retired,
            rounds=_at(sums.rounds, k),
            share=_at(sums.rounds, k) / max(1, sum(sums.rounds)),
            latest_share=_at(latest.labels, k) / max(1, latest.rounds),
            reward=_mean(estimates.label_reward(sums, k)),
            value=_mean(estimates.label_value(subject, statistics, k)),
        )
        for k in range(min(statistics.labels, MOST_LABELS))
    ]


def _best_label(subject: Subject, statistics: RoundStatistics) -> str | None:
    """Return the label with the largest value among those that are active and have enough evidence, if any.

    There is none if an active label without a value was answered more often: it may be the best.
    """
    active = [k for k in range(min(statistics.labels or 0, MOST_LABELS)) if k not in statistics.retired]
    values = {k: estimates.label_value(subject, statistics, k) for k in active}
    means = {k: value.mean for k, value in values.items() if value.mean is not None and value.rounds >= LEAST_EVIDENCE}
    if not means:
        return None
    best, rounds = max(means, key=means.__getitem__), statistics.by_label.rounds
    is_hidden = any(value.mean is None and _at(rounds, k) > _at(rounds, best) for k, value in values.items())
    return None if is_hidden else subject.name_of(best)


def _rule_answers(subject: Subject, statistics: RoundStatistics) -> list[schemas.RuleAnswer] | None:
    rules, latest = subject.rules, joined(statistics.latest)
    if rules is None:
        return None

    def latest_share(name: str) -> float | None:
        members = rules.groups.get(name, [name])
        if not latest.rounds or not set(members) <= set(subject.labels):
            return None
        return sum([_at(latest.labels, subject.labels.index(each)) for each in members]) / latest.rounds

    found = [
        (f"{kind}.{name}", name, share) for kind in ("floor", "cap") for name, share in getattr(rules, kind).items()
    ]
    return [schemas.RuleAnswer(rule=rule, share=share, latest_share=latest_share(name)) for rule, name, share in found]


def _cost_answer(subject: Subject, statistics: RoundStatistics) -> schemas.CostAnswer | None:
    sums, weight = statistics.costs, subject.cost_weight
    if subject.budget is not None and statistics.cost_weight is not None:
        weight = statistics.cost_weight
    if weight is None and not sums.rounds + sums.holdout_rounds:
        return None
    return schemas.CostAnswer(
        rounds=sums.rounds,
        mean=_share(sums.cost, sums.rounds),
        latest=sums.latest if sums.rounds else None,
        holdout=_share(sums.holdout_cost, sums.holdout_rounds),
        cost_weight=weight,
        budget=subject.budget,
    )


def _other_labels(statistics: RoundStatistics) -> schemas.OtherLabelsAnswer | None:
    """Return the statistics of the labels that are not counted individually, together; None if there are none."""
    sums, latest = statistics.by_label, joined(statistics.latest)
    if statistics.labels is None or statistics.labels <= MOST_LABELS:
        return None
    return schemas.OtherLabelsAnswer(
        labels=statistics.labels - MOST_LABELS,
        rounds=_at(sums.rounds, MOST_LABELS),
        share=_at(sums.rounds, MOST_LABELS) / max(1, sum(sums.rounds)),
        latest_share=_at(latest.labels, MOST_LABELS) / max(1, latest.rounds),
        reward=_mean(estimates.label_reward(sums, MOST_LABELS)),
    )


def _labels_note(subject: Subject, statistics: RoundStatistics) -> str | None:
    if subject.has_actions:
        return _ACTIONS
    if statistics.labels is None:
        return _SEVERAL if statistics.rounds else None
    if statistics.labels > MOST_LABELS:
        return f"The first {MOST_LABELS} labels are counted individually, the others together."
    return None


def _at(column: tuple[int, ...], k: int) -> int:
    return column[k] if k < len(column) else 0


def _glance(entry: Entry, stats: ModelStats, now: float) -> schemas.ModelOverview:
    summary = entry.summary
    overview = schemas.ModelOverview(
        name=stats.name,
        algorithm=summary.learner["algorithm"],
        label_count=summary.label_count,
        rounds=stats.round_count,
        predictions=stats.predictions,
        open_predictions=None,
        fold_lag=estimates.fold_lag(stats),
        metric=summary.reward,
        reward=_mean(UNKNOWN),
        latest=_mean(UNKNOWN),
        verdict=None,
        attention=entry.attention,
        spark=[],
    )
    try:
        counted = _counted(stats.statistics, summary.model_dump_json(exclude_defaults=True))
    except (ValueError, NewerVersionError):
        return overview
    update = counted.fields | {"open_predictions": estimates.open_predictions(CountedModel(stats, counted.recent), now)}
    return overview.model_copy(update=update)


class _Counted(NamedTuple):
    recent: RoundStatistics  # only the fields by which open predictions are counted
    fields: JsonObject  # of the overview


@lru_cache(maxsize=_MOST_SUBJECTS)
def _counted(statistics: bytes, summary: str) -> _Counted:
    """Return what an overview takes from published statistics, most of which have not changed since the last request.

    Raises `ValueError` or `NewerVersionError` if they cannot be read.
    """
    found = decode_statistics(statistics) if statistics else RoundStatistics()
    subject = estimates.subject_of_summary(Summary.model_validate_json(summary))
    fields = {
        "metric": estimates.metric_of(subject, found),
        "reward": _mean(_served_reward(found)),
        "latest": _mean(_latest_reward(found)),
        "verdict": verdict_of(subject, found).verdict,
        "spark": _sparkline(found),
    }
    return _Counted(RoundStatistics(slot_seconds=found.slot_seconds, recent=found.recent), fields)


def _sparkline(statistics: RoundStatistics) -> list[float | None]:
    curve = statistics.curve
    size = max(1, -(-len(curve.rounds) // _MOST_POINTS))
    starts = range(0, len(curve.rounds), size)
    return [_share(sum(curve.rewards[i : i + size]), sum(curve.rounds[i : i + size])) for i in starts]


class StatisticsReports:
    """Reads the published statistics of models.

    `fold_soon` loads a model, folds its log in the background, and publishes its statistics.
    """

    def __init__(
        self, environment: Environment, catalogue: Catalogue, fold_soon: Callable[[str], Awaitable[None]]
    ) -> None:
        self._environment, self._store, self._catalogue = environment, environment.store, catalogue
        self._fold_soon = fold_soon
        self._subjects: OrderedDict[tuple[str, bytes], Subject] = OrderedDict()

    async def read(self, name: str) -> bytes:
        """Return the statistics of a model as JSON; raise `ModelNotFoundError`, or as `counted_model` does."""
        stats, subject = await self._store.read_model_stats(name), await self._subject(name)
        if stats is None:
            raise missing(name)
        if estimates.fold_lag(stats):  # perhaps a worker died, or the last rounds expired while no worker had the model
            with contextlib.suppress(WagerError):  # the published statistics are answered all the same
                await self._fold_soon(name)
        run, now = self._environment.compute.run_in_thread_if_costly, self._environment.now()
        return await run(_cost(stats), name, _encoded, stats, subject, now)

    async def page(self, query: Query, own: Names) -> Page[schemas.ModelOverview | UnreadModel]:
        """Return a page of the models with names in `own`, as `Catalogue.page` does."""
        page = await self._catalogue.page(query, own)
        found = await asyncio.gather(*[self._stats(item) for item in page.models])
        cost = sum(map(_cost, [stats for stats in found if isinstance(stats, ModelStats)]))
        pairs, run = list(zip(page.models, found, strict=True)), self._environment.compute.run_in_thread_if_costly
        models = await run(cost, "", _overviews, pairs, self._environment.now())
        return Page(models, page.next_cursor, page.total, page.attention)

    async def _stats(self, item: Entry | UnreadModel) -> ModelStats | UnreadModel | None:
        if isinstance(item, UnreadModel):
            return item
        try:
            return await self._store.read_model_stats(item.listed.name)
        except StoreError as error:
            return UnreadModel(item.listed.name, error)

    async def _subject(self, name: str) -> Subject:
        """Return the subject of a model, cached until the model changes."""
        listed = await self._store.list_model(name)
        if listed is None:
            raise missing(name)
        version = listed.key.incarnation, listed.digest
        subject = self._subjects.get(version)
        if subject is None:
            model = await self._environment.models.read(await stored_under(self._store, name))
            version, subject = (model.key.incarnation, model.digest), estimates.subject_of(model)
            self._subjects[version] = subject
        self._subjects.move_to_end(version)
        if len(self._subjects) > _MOST_SUBJECTS:
            self._subjects.popitem(last=False)
        return subject


def _cost(stats: ModelStats) -> int:
    return costs.GLANCE + len(stats.statistics) * costs.STATISTICS_BYTE


def _encoded(stats: ModelStats, subject: Subject, now: float) -> bytes:
    return statistics_answer(counted_model(stats), subject, now).model_dump_json().encode()


_Pair = tuple[Entry | UnreadModel, ModelStats | UnreadModel | None]


def _overviews(pairs: list[_Pair], now: float) -> list[schemas.ModelOverview | UnreadModel]:
    models: list[schemas.ModelOverview | UnreadModel] = []
    for entry, stats in pairs:
        if isinstance(stats, UnreadModel):
            models.append(stats)
        elif isinstance(entry, Entry) and stats is not None:
            models.append(_glance(entry, stats, now))
    return models

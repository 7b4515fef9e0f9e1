"""Figures of models, read from the store, as Prometheus' metric families.

All workers report the same figures. The cost does not depend on the length of the log.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from service.analytics.estimates import (
    CountedModel,
    counted_model,
    fold_lag,
    open_predictions,
    snapshot_lag,
    uniform_value,
)
from service.analytics.statistics import uniform_ips
from service.errors import NewerVersionError, StoreCorruptError, StoreError
from service.replicas.statistics import DELAY_BOUNDS, PROPENSITY_BOUNDS, SLOTS
from service.replicas.sums import EVERY_DRAW
from service.store.capabilities import Store
from service.store.values import FeedbackStatus, ModelStats, StoreLoad

_T = TypeVar("_T")

_UNREADABLE = (StoreCorruptError, NewerVersionError)


Check = Callable[[str], Awaitable[None]]


class ModelMetrics:
    """Reads the figures of the first `most` models in `names` or, without names, of those with the most traffic.

    `now` returns seconds since the epoch; `check` raises a `StoreError` if a model cannot be read.
    """

    def __init__(self, store: Store, now: Callable[[], float], names: Sequence[str], most: int, check: Check) -> None:
        self._store = store
        self._check = check
        self._now = now
        self._names = names[:most]
        self._most = most

    async def read(self) -> list[Metric]:
        """Return all metric families; if the store fails, only `wager_store_up`, which is then 0."""
        up = GaugeMetricFamily("wager_store_up", "1 if the store answers, else 0.")
        try:
            load = await self._store.read_load()
            names = self._names or await self._store.list_busiest(self._most)
            found = await asyncio.gather(*(self._read_model(name) for name in names))
            readable = [stats for stats in found if isinstance(stats, ModelStats)]
            open_bytes = await asyncio.gather(*(self._store.sum_open_bytes([stats.name]) for stats in readable))
        except StoreError:
            up.add_metric((), 0)
            return [up]
        up.add_metric((), 1)
        unreadable = sum(isinstance(stats, _UNREADABLE) for stats in found)
        omitted = _omitted(max(0, load.models - len(readable) - unreadable), self._names)
        models = _of_models(readable, self._now())
        return [up, *_of_store(load, unreadable), omitted, _sizes(readable, open_bytes), *models]

    async def _read_model(self, name: str) -> ModelStats | StoreCorruptError | NewerVersionError | None:
        try:
            await self._check(name)
            return await self._store.read_model_stats(name)
        except _UNREADABLE as error:
            return error


def _counted(models: Sequence[ModelStats]) -> Iterator[CountedModel]:
    """Yield the models with readable statistics. For other models, series from statistics are absent, not zero."""
    for stats in models:
        try:
            yield counted_model(stats)
        except _UNREADABLE:
            continue


def _omitted(number: int, names: Sequence[str]) -> Metric:
    text = "Models without series, because the maximum is reached or the settings do not list them."
    family = GaugeMetricFamily("wager_models_omitted", text, labels=("reason",))
    family.add_metric(("maximum",), 0 if names else number)
    family.add_metric(("unlisted",), number if names else 0)
    return family


def _of_store(load: StoreLoad, unreadable: int) -> Iterator[Metric]:
    gauges = {
        "wager_store_memory_bytes": (
            "Memory that the store uses; in a cluster, that of the fullest server.",
            load.memory,
        ),
        "wager_store_memory_limit_bytes": (
            "Memory limit of the store, or the memory of its machine.",
            load.memory_limit,
        ),
        "wager_backup_timestamp_seconds": (
            "When the latest whole backup (`wager backup --all`) began; 0 if there is none.",
            load.backup_at,
        ),
        "wager_models": ("Models in the store.", load.models),
        "wager_models_unreadable": ("Models without series, because they cannot be read.", unreadable),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value)
    if math.isfinite(load.disk_free):
        text = "Bytes that are free on the disk of the embedded store."
        yield GaugeMetricFamily("wager_store_disk_free_bytes", text, load.disk_free)


def _of_models(models: Sequence[ModelStats], now: float) -> Iterator[Metric]:
    counted = list(_counted(models))
    stored, folded = [(stats.name, stats) for stats in models], [(model.stats.name, model) for model in counted]
    yield from _families(CounterMetricFamily, _COUNTERS, stored)
    yield from _families(CounterMetricFamily, _SUMS, folded)
    yield from _families(GaugeMetricFamily, _GAUGES, stored)
    yield from _families(GaugeMetricFamily, _STATISTICS, folded)
    still_open = {"wager_open_predictions": (_OPEN_TEXT, lambda model: open_predictions(model, now))}
    yield from _families(GaugeMetricFamily, still_open, folded)
    yield _feedback(models)
    yield _mean_rewards(models, counted)
    yield from _distributions(counted)


def _families(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    families: Mapping[str, tuple[str, Callable[[_T], float | None]]],
    models: Sequence[tuple[str, _T]],
) -> Iterator[Metric]:
    for family, (text, value) in families.items():
        metric = kind(family, text, labels=("model",))
        for name, model in models:
            if (number := value(model)) is not None:
                metric.add_metric((name,), number)
        yield metric


_COUNTERS: dict[str, tuple[str, Callable[[ModelStats], float]]] = {
    "wager_predictions": ("Predictions stored.", lambda stats: stats.predictions),
    "wager_predictions_refused": (
        "Predictions refused because open predictions use too many bytes.",
        lambda stats: stats.predictions_refused,
    ),
    "wager_correct": ("Rounds with a correct answer.", lambda stats: stats.correct),
    "wager_reward": ("Sum of the rewards of the rounds.", lambda stats: stats.correct + stats.partial),
    "wager_abstained": ("Rounds whose answer abstained: neither right nor wrong.", lambda stats: stats.abstained),
    "wager_expired_rounds": ("Rounds made when the window ended without feedback.", lambda stats: stats.expired),
    "wager_folded_rounds": ("Rounds that a worker has folded and published.", lambda stats: stats.statistics_rounds),
}

_SUMS: dict[str, tuple[str, Callable[[CountedModel], float | None]]] = {
    "wager_uniform_weight": (
        "Sum of w = 1/(K p) over the rounds outside the holdout, with K eligible labels: the weights of uniform draws.",
        lambda m: _of_draws(m, m.statistics.chance.weights),
    ),
    "wager_uniform_squared_weight": (
        "Sum of w² over these rounds.",
        lambda m: _of_draws(m, m.statistics.chance.squared_weights),
    ),
    "wager_uniform_weighted_reward": (
        "Sum of w times the reward over these rounds.",
        lambda m: _of_draws(m, m.statistics.chance.reward_weights),
    ),
}

_GAUGES: dict[str, tuple[str, Callable[[ModelStats], float | None]]] = {
    "wager_fold_lag_rounds": ("Rounds in the log that no worker has published as folded.", fold_lag),
    "wager_snapshot_lag_rounds": ("Rounds in the log after the latest snapshot.", snapshot_lag),
    "wager_snapshot_timestamp_seconds": ("Time of the latest snapshot.", lambda stats: stats.snapshot_at),
    "wager_damaged_rounds": ("Unreadable rounds, which are skipped.", lambda stats: stats.damaged),
}

_STATISTICS: dict[str, tuple[str, Callable[[CountedModel], float | None]]] = {
    "wager_labels": ("Labels of a model that answers one label.", lambda m: m.statistics.labels),
    "wager_uncounted_rounds": (
        "Rounds missing from the sums, because their statistics were damaged.",
        lambda m: m.statistics.uncounted,
    ),
    "wager_effective_sample_size_rounds": (
        "Effective sample size of the uniform policy's estimate.",
        lambda m: uniform_value(m.statistics).rounds or None,
    ),
}

_OPEN_TEXT = f"Predictions in the window still without feedback; the window is accurate to 1/{SLOTS} of its length."


def _sizes(models: Sequence[ModelStats], open_bytes: Sequence[int]) -> Metric:
    text = "Bytes of open predictions in the store, until they have feedback or are no longer kept."
    family = GaugeMetricFamily("wager_open_predictions_bytes", text, labels=("model",))
    for stats, size in zip(models, open_bytes, strict=True):
        family.add_metric((stats.name,), size)
    return family


def _feedback(models: Sequence[ModelStats]) -> Metric:
    family = CounterMetricFamily("wager_feedback", "Feedback by outcome.", labels=("model", "status"))
    for stats in models:
        recorded = {FeedbackStatus.RECORDED: stats.round_count - stats.expired}
        for status, count in (dict.fromkeys(FeedbackStatus, 0) | stats.refused | recorded).items():
            family.add_metric((stats.name, status), count)
    return family


def _mean_rewards(models: Sequence[ModelStats], counted: Sequence[CountedModel]) -> Metric:
    text = "Mean reward, as served, and for uniform draws (IPS and SNIPS); the fraction right if rewards are 0 or 1."
    family = GaugeMetricFamily("wager_reward_ratio", text, labels=("model", "policy", "estimator"))
    for stats in models:
        if stats.round_count:
            family.add_metric((stats.name, "served", "mean"), (stats.correct + stats.partial) / stats.round_count)
    for model in counted:
        name, uniform = model.stats.name, uniform_value(model.statistics)
        if uniform.mean is not None:
            family.add_metric((name, "uniform", "ips"), uniform_ips(model.statistics) or 0.0)
            family.add_metric((name, "uniform", "snips"), uniform.mean)
    return family


def _of_draws(model: CountedModel, column: tuple[float, ...]) -> float | None:
    return None if model.statistics.labels is None else sum(column[EVERY_DRAW])


def _distributions(counted: Sequence[CountedModel]) -> Iterator[Metric]:
    delays = HistogramMetricFamily(
        "wager_feedback_delay_seconds", "Time from a prediction to its feedback.", labels=("model",)
    )
    propensities = HistogramMetricFamily("wager_propensity", "Propensities of the rounds.", labels=("model",))
    entropy = SummaryMetricFamily(
        "wager_surprisal_nats",
        "-ln p of the rounds; its mean estimates the entropy of the distributions.",
        labels=("model",),
    )
    for stats, statistics in counted:
        delays.add_metric((stats.name,), _cumulated(DELAY_BOUNDS, statistics.delays), statistics.delay_seconds)
        propensities.add_metric(
            (stats.name,), _cumulated(PROPENSITY_BOUNDS, statistics.propensities), statistics.propensity_sum
        )
        entropy.add_metric((stats.name,), statistics.weighed, statistics.surprisal_micronats / 1e6)
    yield from (delays, propensities, entropy)


def _cumulated(bounds: Sequence[float], buckets: Sequence[int]) -> list[tuple[str, float]]:
    totals = itertools.accumulate(buckets)
    return list(zip([*(repr(bound) for bound in bounds), "+Inf"], totals, strict=True))

"""The use case of watching: what the store knows about its models, as Prometheus' metric families.

Nothing here is summed over workers, and nothing costs more where the history is longer.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from service.errors import NewerVersionError, StoreCorruptError, StoreError
from service.replicas.statistics import DELAY_BOUNDS, PROPENSITY_BOUNDS, SLOTS, Counts, decode_counts
from service.store.base import FeedbackStatus, ModelFigures, Store, StoreLoad

_MICRO = 1e6
_UNREADABLE = (StoreCorruptError, NewerVersionError)


class Watched(NamedTuple):
    """A model's figures, and the counts of its published tally."""

    figures: ModelFigures
    counts: Counts


Check = Callable[[str], Awaitable[None]]


class Figures:
    """Reads the figures of some models.

    Args:
        store: where they are.
        now: seconds since the epoch.
        names: of the models to tell of; empty for the first ones in the order of their names, so that the set of
            series does not change with the traffic.
        most: how many models to tell of at most.
        check: raises `StoreCorruptError` where the model of a name cannot be read.
    """

    def __init__(self, store: Store, now: Callable[[], float], names: Sequence[str], most: int, check: Check) -> None:
        self._store = store
        self._check = check
        self._now = now
        self._names = names[:most]
        self._most = most

    async def read(self) -> list[Metric]:
        """All families; where the store does not answer, only that it does not."""
        up = GaugeMetricFamily("wager_store_up", "1 where the store answers, else 0.")
        try:
            load = await self._store.read_load()
            names = self._names or await self._store.list_names(self._most)
            found = await asyncio.gather(*(self._figures(name) for name in names))
        except StoreError:
            up.add_metric((), 0)
            return [up]
        up.add_metric((), 1)
        readable = [figures for figures in found if isinstance(figures, ModelFigures)]
        unreadable = sum(isinstance(figures, _UNREADABLE) for figures in found)
        watched = [Watched(figures, _counts_of(figures)) for figures in readable]
        return [up, *_of_store(load, len(watched), unreadable), *_of_models(watched, self._now())]

    async def _figures(self, name: str) -> ModelFigures | StoreCorruptError | NewerVersionError | None:
        try:
            await self._check(name)
            return await self._store.read_figures(name)
        except _UNREADABLE as error:
            return error


def _counts_of(figures: ModelFigures) -> Counts:
    try:
        return decode_counts(figures.tally)
    except ValueError:  # none yet, or another version's
        return Counts()


def _of_store(load: StoreLoad, watched: int, unreadable: int) -> Iterator[Metric]:
    left_out = max(0, load.models - watched - unreadable)
    facts = {
        "wager_store_memory_bytes": ("Memory that the store uses; of a cluster, the fullest server.", load.memory),
        "wager_store_memory_limit_bytes": ("Memory that the store may use, or its machine has.", load.memory_limit),
        "wager_models": ("Models in the store.", load.models),
        "wager_models_left_out": ("Models without series here: the limit is reached.", left_out),
        "wager_models_unreadable": ("Models without series here: they cannot be read.", unreadable),
    }
    for name, (text, value) in facts.items():
        yield GaugeMetricFamily(name, text, value)


def _of_models(watched: Sequence[Watched], now: float) -> Iterator[Metric]:
    for name, (text, number) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=("model",))
        for model in watched:
            counter.add_metric((model.figures.name,), number(model))
        yield counter
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=("model",))
        for model in watched:
            if (told := value(model)) is not None:
                gauge.add_metric((model.figures.name,), told)
        yield gauge
    open_ones = GaugeMetricFamily("wager_open_predictions", _OPEN_TEXT, labels=("model",))
    for model in watched:
        open_ones.add_metric((model.figures.name,), _open_predictions(model, now))
    yield open_ones
    yield _feedback(watched)
    yield _accuracy(watched)
    yield from _distributions(watched)


_COUNTERS: dict[str, tuple[str, Callable[[Watched], float]]] = {
    "wager_predictions": ("Predictions stored.", lambda m: m.figures.predictions),
    "wager_correct": ("Rounds whose answer was right.", lambda m: m.figures.correct),
    "wager_folded_rounds": ("Rounds that a worker has learned from and counted.", lambda m: m.figures.tally_rounds),
    "wager_inverse_propensity": ("Sum of 1/p over the rounds.", lambda m: m.counts.weights),
    "wager_inverse_propensity_squared": ("Sum of 1/p² over the rounds.", lambda m: m.counts.squared_weights),
    "wager_correct_inverse_propensity": ("Sum of 1/p over the right ones.", lambda m: m.counts.correct_weights),
}

_GAUGES: dict[str, tuple[str, Callable[[Watched], float | None]]] = {
    "wager_fold_lag_rounds": (
        "Rounds in the log that no worker has told to have learned from.",
        lambda m: max(0, m.figures.rounds - m.figures.tally_rounds),
    ),
    "wager_snapshot_lag_rounds": (
        "Rounds in the log behind the latest snapshot.",
        lambda m: max(0, m.figures.rounds - m.figures.snapshot_rounds),
    ),
    "wager_snapshot_timestamp_seconds": ("When the latest snapshot was written.", lambda m: m.figures.snapshot_at),
    "wager_damaged_rounds": ("Rounds that cannot be read, and are left out.", lambda m: m.figures.damaged),
    "wager_labels": ("Labels that an answer is one of.", lambda m: m.counts.labels),
    "wager_effective_sample_size_rounds": (
        "Rounds that the estimate for the uniform policy is worth: (sum of 1/p)² / sum of 1/p².",
        lambda m: m.counts.weights**2 / m.counts.squared_weights if _has_uniform(m) else None,
    ),
}

_OPEN_TEXT = f"Predictions that wait for feedback in their window, to within 1/{SLOTS} of it."


def _open_predictions(model: Watched, now: float) -> int:
    """Those of the last window less those that are rounds by now."""
    figures, counts = model
    first = int(now // counts.slot_seconds) - SLOTS + 1
    before = max((slot for slot in figures.predictions_by if slot < first), default=None)
    made = figures.predictions - (0 if before is None else figures.predictions_by[before])
    closed = sum(n for slot, n in counts.recent if slot >= first)
    return max(0, made - closed - (figures.rounds - figures.tally_rounds))


def _feedback(watched: Sequence[Watched]) -> Metric:
    family = CounterMetricFamily("wager_feedback", "Feedback, by what became of it.", labels=("model", "status"))
    for figures, _ in watched:
        counted = dict.fromkeys(FeedbackStatus, 0) | figures.refused | {FeedbackStatus.RECORDED: figures.rounds}
        for status, count in counted.items():
            family.add_metric((figures.name, status), count)
    return family


def _accuracy(watched: Sequence[Watched]) -> Metric:
    text = "Fraction of right answers: as served, and as estimated for answers drawn uniformly (IPS and SNIPS)."
    family = GaugeMetricFamily("wager_accuracy_ratio", text, labels=("model", "policy", "estimator"))
    for model in watched:
        (figures, counts), name = model, model.figures.name
        if figures.rounds:
            family.add_metric((name, "served", "mean"), figures.correct / figures.rounds)
        if _has_uniform(model):
            ips = counts.correct_weights / (counts.weighed * (counts.labels or math.nan))
            family.add_metric((name, "uniform", "ips"), ips)
            family.add_metric((name, "uniform", "snips"), counts.correct_weights / counts.weights)
    return family


def _has_uniform(model: Watched) -> bool:
    """Whether drawing uniformly is a policy of this model, and there is a round to judge it by."""
    return model.counts.labels is not None and model.counts.weighed > 0


def _distributions(watched: Sequence[Watched]) -> Iterator[Metric]:
    delays = HistogramMetricFamily(
        "wager_feedback_delay_seconds", "Time from a prediction to its feedback.", labels=("model",)
    )
    propensities = HistogramMetricFamily("wager_propensity", "Propensities of the rounds.", labels=("model",))
    entropy = SummaryMetricFamily(
        "wager_surprisal_nats", "-ln p of the rounds: its mean estimates the distributions' entropy.", labels=("model",)
    )
    for figures, counts in watched:
        delays.add_metric((figures.name,), _cumulated(DELAY_BOUNDS, counts.delays), counts.delay_seconds)
        propensities.add_metric(
            (figures.name,), _cumulated(PROPENSITY_BOUNDS, counts.propensities), counts.propensity_sum
        )
        entropy.add_metric((figures.name,), counts.weighed, counts.surprisal_micronats / _MICRO)
    yield from (delays, propensities, entropy)


def _cumulated(bounds: Sequence[float], buckets: Sequence[int]) -> list[tuple[str, float]]:
    """Buckets as Prometheus wants them: each holds those below it, the last one all."""
    totals = itertools.accumulate(buckets)
    return list(zip([*(repr(bound) for bound in bounds), "+Inf"], totals, strict=True))

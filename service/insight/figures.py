"""Numbers that follow from a model's counters and its published statistics together."""

from typing import NamedTuple

from service.errors import StoreCorruptError
from service.replicas.statistics import SLOTS, RoundStatistics, decode_statistics
from service.store.base import ModelStats


class CountedModel(NamedTuple):
    """The counters of a model, and its decoded statistics."""

    stats: ModelStats
    statistics: RoundStatistics


def counted_model(stats: ModelStats) -> CountedModel:
    """Decode the statistics of a model; without any, all sums are zero.

    Raises:
        NewerVersionError: if a newer version published them.
        StoreCorruptError: if they cannot be read.
    """
    try:
        return CountedModel(stats, decode_statistics(stats.statistics) if stats.statistics else RoundStatistics())
    except ValueError as error:
        raise StoreCorruptError(f"the published statistics of model {stats.name!r} cannot be read") from error


def fold_lag(stats: ModelStats) -> int:
    """Return the rounds in the log that no worker has published as folded."""
    return max(0, stats.round_count - stats.statistics_rounds)


def snapshot_lag(stats: ModelStats) -> int:
    """Return the rounds in the log after the latest snapshot."""
    return max(0, stats.round_count - stats.snapshot_rounds)


def open_predictions(model: CountedModel, now: float) -> int:
    """Return the predictions in the window still without feedback; the window is accurate to 1/`SLOTS` of its length.

    Args:
        model: the counters and statistics.
        now: seconds since the epoch.
    """
    stats, statistics = model
    first = int(now // statistics.slot_seconds) - SLOTS + 1
    before = max((slot for slot in stats.predictions_by if slot < first), default=None)
    made = stats.predictions - (0 if before is None else stats.predictions_by[before])
    closed = sum(n for slot, n in statistics.recent if slot >= first)
    return max(0, made - closed - fold_lag(stats))

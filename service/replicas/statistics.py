"""What is counted of a model's rounds for those who watch it: a fold over the log, like the learner's state.

Every worker folds the same rounds in the same order, so all of them count the same, to the bit: sums are made one
round after the other, and what the processor may round in several ways is counted in whole numbers. The store keeps
the statistics that has counted most, and each snapshot has its own.

A round costs the request that brings it one entry of a list; the counting is done for many rounds at once.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.base import FloatArray
from service.store.records.records import RecordFormat

DELAY_BOUNDS = (1.0, 10.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)
"""Upper bounds of the buckets of delays, seconds; behind them one without a bound."""

PROPENSITY_BOUNDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Upper bounds of the buckets of propensities; behind them one that stays empty."""

SLOTS = 32
"""Into how many slots of time a model's window is cut, to know which predictions are still open."""

_COUNT_AT_ONCE = 1024
_BYTES_AT_ONCE = 2**18
_MICRO = 1e6
_LEAST_WEIGHED = 1e-150  # one over the square of a smaller propensity is no float64


@dataclasses.dataclass(frozen=True)
class RoundStatistics:
    """Sums over the rounds counted; as JSON they are the bytes of a statistics."""

    rounds: int = 0
    correct: int = 0
    delays: tuple[int, ...] = (0,) * (len(DELAY_BOUNDS) + 1)  # rounds in each bucket
    delay_seconds: float = 0.0
    propensities: tuple[int, ...] = (0,) * (len(PROPENSITY_BOUNDS) + 1)  # rounds in each bucket
    weighed: int = 0  # rounds whose propensity has a weight; the sums that follow are over these
    propensity_sum: float = 0.0
    surprisal_micronats: int = 0  # sum of −ln p
    weights: float = 0.0  # sum of 1/p
    squared_weights: float = 0.0  # sum of 1/p²
    correct_weights: float = 0.0  # sum of 1/p where the answer was right
    labels: int | None = None  # K, where the model answers one label of K
    slot_seconds: float = 1.0
    recent: tuple[tuple[int, int], ...] = ()  # slot of time, and rounds that were predicted in it

    def encode(self) -> bytes:
        """As JSON; numbers come back as they were, to the bit."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":")).encode()


def decode_statistics(statistics: bytes) -> RoundStatistics:
    """The counts that were encoded.

    Raises:
        ValueError: if the bytes are no statistics that this version understands.
    """
    try:
        fields = {name: _tupled(value) for name, value in json.loads(statistics).items()}
        counts = RoundStatistics(**fields)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"no tally: {error}") from error
    if len(counts.delays) != len(DELAY_BOUNDS) + 1 or len(counts.propensities) != len(PROPENSITY_BOUNDS) + 1:
        raise ValueError("a tally with other buckets")
    return counts


def counted_rounds(statistics: bytes) -> int:
    """How many rounds an encoded statistics has counted; 0 where it cannot be read."""
    try:
        return decode_statistics(statistics).rounds
    except ValueError:
        return 0


class StatisticsAccumulator:
    """The counts of one replica, a little behind until they are asked for.

    Args:
        form: of the model's rounds.
        labels: K, where the model answers one label of K; else None.
        window_seconds: how long its predictions wait.
    """

    def __init__(self, form: RecordFormat, labels: int | None, window_seconds: float) -> None:
        self._form = form
        self._empty = RoundStatistics(labels=labels, slot_seconds=window_seconds / SLOTS)
        self._counts = self._empty
        self._waiting: list[bytes] = []  # entries of the log
        self._rounds_waiting = 0
        self._bytes_waiting = 0

    def restart(self, statistics: bytes) -> None:
        """Goes on from encoded counts; from nothing where they cannot be read."""
        self._clear()
        try:
            self._counts = decode_statistics(statistics)
        except ValueError:
            self._counts = self._empty

    def take(self, entries: Sequence[bytes], n: int) -> None:
        """Counts n rounds that can be read, in the order of the log, by and by."""
        self._waiting += entries
        self._rounds_waiting += n
        self._bytes_waiting += sum(map(len, entries))
        if self._rounds_waiting >= _COUNT_AT_ONCE or self._bytes_waiting >= _BYTES_AT_ONCE:
            self._count()

    def counts(self) -> RoundStatistics:
        """The counts of every round that was taken."""
        if self._waiting:
            self._count()
        return self._counts

    def _count(self) -> None:
        table = self._form.table(self._waiting)
        self._counts = _counted(self._counts, table)
        self._clear()

    def _clear(self) -> None:
        self._waiting.clear()
        self._rounds_waiting = self._bytes_waiting = 0


def _counted(counts: RoundStatistics, table: np.ndarray[Any, Any]) -> RoundStatistics:
    """The counts with a table of further rounds."""
    correct, p = table["correct"].astype(np.bool_), table["propensity"]
    delays = np.maximum(table["feedback_at"] - table["predicted_at"], 0.0)  # clocks of two machines may differ
    known = p > _LEAST_WEIGHED
    p, right = p[known], correct[known]
    weights = 1.0 / p
    return dataclasses.replace(
        counts,
        rounds=counts.rounds + len(table),
        correct=counts.correct + int(correct.sum()),
        delays=_bucketed(counts.delays, delays, DELAY_BOUNDS),
        delay_seconds=_added(counts.delay_seconds, delays),
        propensities=_bucketed(counts.propensities, p, PROPENSITY_BOUNDS),
        weighed=counts.weighed + len(p),
        propensity_sum=_added(counts.propensity_sum, p),
        surprisal_micronats=counts.surprisal_micronats + int(np.rint(-np.log(p) * _MICRO).sum()),
        weights=_added(counts.weights, weights),
        squared_weights=_added(counts.squared_weights, weights * weights),
        correct_weights=_added(counts.correct_weights, weights[right]),
        recent=_slotted(counts, table["predicted_at"]),
    )


def _bucketed(before: tuple[int, ...], values: FloatArray, bounds: tuple[float, ...]) -> tuple[int, ...]:
    found = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    return tuple((np.array(before) + found).tolist())


def _added(total: float, terms: FloatArray) -> float:
    """One term after the other: the same bits however the terms come in parts, and never less than before."""
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])


def _slotted(counts: RoundStatistics, predicted_at: FloatArray) -> tuple[tuple[int, int], ...]:
    """The rounds by the slot of their prediction, for as many slots as an open prediction may be in."""
    slots, found = np.unique(np.floor_divide(predicted_at, counts.slot_seconds).astype(np.int64), return_counts=True)
    recent = dict(counts.recent)
    for slot, n in zip(slots.tolist(), found.tolist(), strict=True):
        recent[slot] = recent.get(slot, 0) + n
    newest = max(recent)
    return tuple(sorted((slot, n) for slot, n in recent.items() if slot >= newest - SLOTS))


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value

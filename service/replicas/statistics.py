"""What is counted of a model's rounds for those who watch it: a fold over the log, like the learner's state.

Every worker folds the same rounds in the same order, so all of them count the same, to the bit: sums are made one
round after the other, and what the processor may round in several ways is counted in whole numbers. The store keeps
the statistics that count most, and each snapshot has its own.

Rounds cost the request that brings them one entry of a list; the counting is done for many rounds at once.
"""

import dataclasses
import json
from typing import Any

import numpy as np

from learners.base import FloatArray
from service.errors import NewerVersionError
from service.store.records.round_table import Table

STATISTICS_VERSION = 1
"""Of the encoded statistics."""

DELAY_BOUNDS = (1.0, 10.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)
"""Upper bounds of the buckets of delays, seconds; behind them one without a bound."""

PROPENSITY_BOUNDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Upper bounds of the buckets of propensities; behind them one that stays empty."""

SLOTS = 32
"""Into how many slots of time a model's window is cut, to know which predictions are still open."""

_UNSAID = {"version": 1, "uncounted": 0}
"""Fields that are left out where they have this value: release 0.1.0 does not know them, and would begin anew."""

_COUNT_AT_ONCE = 1024
_BYTES_AT_ONCE = 2**18
_COLUMNS = ("correct", "propensity", "predicted_at", "feedback_at")
_MICRO = 1e6
_LEAST_WEIGHED = 1e-150  # one over the square of a smaller propensity is no float64


@dataclasses.dataclass(frozen=True)
class RoundStatistics:
    """Sums over the rounds counted."""

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
    uncounted: int = 0  # rounds before those counted, whose statistics were damaged

    def encode(self) -> bytes:
        """As JSON, with the version; numbers come back as they were, to the bit."""
        fields = {"version": STATISTICS_VERSION, **dataclasses.asdict(self)}
        said = {name: value for name, value in fields.items() if (name, value) not in _UNSAID.items()}
        return json.dumps(said, separators=(",", ":")).encode()


def decode_statistics(statistics: bytes) -> RoundStatistics:
    """The counts that were encoded.

    Raises:
        NewerVersionError: if a newer version encoded them.
        ValueError: if the bytes are no statistics.
    """
    try:
        fields = {name: _tupled(value) for name, value in json.loads(statistics).items()}
        version = fields.pop("version", 1)
        if version > STATISTICS_VERSION:
            raise NewerVersionError(f"the statistics have version {version}, which this version does not know")
        counts = RoundStatistics(**fields)
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"no statistics: {error}") from error
    if len(counts.delays) != len(DELAY_BOUNDS) + 1 or len(counts.propensities) != len(PROPENSITY_BOUNDS) + 1:
        raise ValueError("statistics with other buckets")
    return counts


def counted_rounds(statistics: bytes) -> int:
    """How many rounds encoded statistics have counted; 0 where they cannot be read."""
    try:
        return decode_statistics(statistics).rounds
    except (ValueError, NewerVersionError):
        return 0


class StatisticsAccumulator:
    """The counts of one replica, a little behind until they are asked for.

    Args:
        labels: K, where the model answers one label of K; else None.
        window_seconds: how long its predictions wait.
    """

    def __init__(self, labels: int | None, window_seconds: float) -> None:
        self._empty = RoundStatistics(labels=labels, slot_seconds=window_seconds / SLOTS)
        self._counts = self._empty
        self.known = True  # False where they should go on from a newer version's, which cannot be read
        self._waiting: list[Table] = []
        self._rounds_waiting = 0
        self._bytes_waiting = 0

    def restart(self, statistics: bytes, round_count: int) -> None:
        """Goes on from encoded counts.

        Where they are damaged, counting begins anew and says how many rounds it left out. Where a newer version
        encoded them, the counts are not known: they must not be published or saved in the place of that version's.

        Args:
            statistics: the encoded counts; of no round, they may be empty.
            round_count: how many rounds the log had when they were encoded.
        """
        self._clear()
        self.known = True
        try:
            self._counts = decode_statistics(statistics)
        except NewerVersionError:
            self.known = False
        except ValueError:
            self._counts = dataclasses.replace(self._empty, uncounted=round_count)

    def take(self, rounds: Table) -> None:
        """Counts the rounds of a table, which follow those before, by and by."""
        self._waiting.append(rounds)
        self._rounds_waiting += len(rounds)
        self._bytes_waiting += rounds.nbytes
        if self._rounds_waiting >= _COUNT_AT_ONCE or self._bytes_waiting >= _BYTES_AT_ONCE:
            self._count()

    def counts(self) -> RoundStatistics:
        """The counts of every round that was taken."""
        if self._waiting:
            self._count()
        return self._counts

    def _count(self) -> None:
        columns = {name: np.concatenate([table[name] for table in self._waiting]) for name in _COLUMNS}
        self._counts = _counted(self._counts, columns)
        self._clear()

    def _clear(self) -> None:
        self._waiting.clear()
        self._rounds_waiting = self._bytes_waiting = 0


def _counted(counts: RoundStatistics, table: dict[str, np.ndarray[Any, Any]]) -> RoundStatistics:
    """The counts with the columns of further rounds."""
    correct, p = table["correct"].astype(np.bool_), table["propensity"]
    delays = np.maximum(table["feedback_at"] - table["predicted_at"], 0.0)  # clocks of two machines may differ
    known = p > _LEAST_WEIGHED
    p, right = p[known], correct[known]
    weights = 1.0 / p
    return dataclasses.replace(
        counts,
        rounds=counts.rounds + len(correct),
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

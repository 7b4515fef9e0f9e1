"""Monitoring statistics of a model's rounds: a fold over the log, like the learner's state.

Every worker folds the same rounds in the same order and gets bit-identical statistics. To ensure this, sums add one
round at a time, and values that depend on a processor's rounding are summed as integers. The store keeps the
statistics with the most rounds. Each snapshot includes the statistics of its rounds.

New rounds are queued, and many are counted together, which costs less per round.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.base import NO_LABEL, BoolArray, FloatArray
from learners.evaluation.weights import weighable
from service.errors import NewerVersionError
from service.replicas.sums import (
    MOST_LABELS,
    NO_COST_SUMS,
    NO_CURVE,
    NO_ELIGIBLE_ROUNDS,
    NO_LABEL_SUMS,
    NO_LATEST,
    CostSums,
    CurveRows,
    EligibleRounds,
    LabelSums,
    LatestRounds,
    LatestRows,
    RewardCurve,
    added,
    extended_curve,
    extended_latest,
    read_costs,
    read_curve,
    read_eligible,
    read_label_sums,
    read_latest,
    with_chance,
    with_costs,
    with_eligible,
    with_rounds,
)
from service.replicas.uplift_sums import NO_UPLIFT, ArmRows, UpliftSums, read_uplift, with_arms
from service.store.records.layout import FEEDBACK, FOREIGN, HOLDOUT
from service.store.records.optional_fields import OptionalFields
from service.store.records.outcomes import abstentions
from service.store.records.round_table import Table

STATISTICS_VERSION = 2
"""Version of the encoded statistics."""

DELAY_BOUNDS = (1.0, 10.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)
"""Inclusive upper bounds of the delay buckets, in seconds. There is one more bucket, for longer delays."""

PROPENSITY_BOUNDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""Inclusive upper bounds of the propensity buckets. There is one more bucket, which always stays empty."""

SLOTS = 32
"""Number of time slots in a feedback window. The predictions made in the latest window, minus those that have become
rounds, are open."""

_COUNT_AT_ONCE = 1024  # queued rounds are counted as soon as there are this many,
_BYTES_AT_ONCE = 2**18  # or as soon as they have this many bytes
_COLUMNS = ("kind", "reward", "propensity", "predicted_at", "feedback_at", "flags")
_UPLIFT_COLUMNS = ("changes_seen", "token")
_MICRO = 1e6
_NO_LABELS = np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True)
class RoundStatistics:
    """Sums over the counted rounds."""

    rounds: int = 0
    correct: int = 0
    reward: float = 0.0  # sum of the rewards
    expired: int = 0  # rounds without feedback, which have no delay
    abstained: int = 0  # rounds whose answer abstained
    delays: tuple[int, ...] = (0,) * (len(DELAY_BOUNDS) + 1)  # rounds in each bucket
    delay_seconds: float = 0.0
    propensities: tuple[int, ...] = (0,) * (len(PROPENSITY_BOUNDS) + 1)  # weighed rounds in each bucket
    weighed: int = 0  # rounds whose propensity p is large enough for a weight 1/p; the next two sums cover only these
    propensity_sum: float = 0.0
    surprisal_micronats: int = 0  # sum of −ln p
    labels: int | None = None  # K if the model answers one of K labels, else None
    slot_seconds: float = 1.0  # length of a time slot
    recent: tuple[tuple[int, int], ...] = ()  # (time slot, rounds predicted in it)
    uncounted: int = 0  # rounds before the first counted one: their statistics were damaged
    by_label: LabelSums = NO_LABEL_SUMS  # empty unless the model answers one of K labels
    eligible: EligibleRounds = NO_ELIGIBLE_ROUNDS  # empty as `by_label`
    chance: LabelSums = NO_LABEL_SUMS  # by kind of draw instead of by label: see `with_chance`
    curve: RewardCurve = NO_CURVE
    latest: LatestRounds = NO_LATEST
    answered: int = 0  # rounds, outside the holdout, whose answer did not abstain
    answered_reward: float = 0.0  # sum of their rewards
    answered_squares: float = 0.0  # sum of their squared rewards
    holdout_rounds: int = 0  # rounds of the holdout, which `by_label` to `answered_squares` leave out
    holdout_reward: float = 0.0
    holdout_squares: float = 0.0  # sum of reward²
    uplift: UpliftSums = NO_UPLIFT
    costs: CostSums = NO_COST_SUMS
    cost_weight: float | None = None  # λ as it is now, in published statistics of a model with a budget
    retired: tuple[int, ...] = ()  # numbers of the retired labels among those that are counted individually

    def encode(self) -> bytes:
        """Encode as JSON, with the version. Decoding restores every bit of each number."""
        return json.dumps({"version": STATISTICS_VERSION, **vars(self)}, separators=(",", ":")).encode()


def decode_statistics(statistics: bytes) -> RoundStatistics:
    """Decode statistics.

    Raises:
        NewerVersionError: if a newer version encoded them.
        ValueError: if the bytes are not valid statistics.
    """
    try:
        fields = {name: _tupled(value) for name, value in json.loads(statistics).items()}
        version = fields.pop("version")
        if version > STATISTICS_VERSION:
            raise NewerVersionError(f"the statistics have version {version}, which is newer than this service")
        readers = {
            "by_label": read_label_sums,
            "eligible": read_eligible,
            "chance": read_label_sums,
            "curve": read_curve,
            "latest": read_latest,
            "uplift": read_uplift,
            "costs": read_costs,
        }
        counts = RoundStatistics(**fields | {name: read(fields[name]) for name, read in readers.items()})
        buckets = len(counts.delays), len(counts.propensities)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"invalid statistics: {error}") from error
    if buckets != (len(DELAY_BOUNDS) + 1, len(PROPENSITY_BOUNDS) + 1):
        raise ValueError("invalid statistics: wrong number of buckets")
    return counts


def counted_rounds(statistics: bytes) -> int:
    """Return the number of rounds in encoded statistics; 0 if they cannot be read."""
    try:
        return decode_statistics(statistics).rounds
    except (ValueError, NewerVersionError):
        return 0


class StatisticsAccumulator:
    """Counts the rounds of one replica, in batches.

    Args:
        labels: K if the model answers one of K labels, else None.
        window_seconds: the model's feedback window.
    """

    def __init__(self, labels: int | None, window_seconds: float) -> None:
        self._empty = RoundStatistics(labels=labels, slot_seconds=window_seconds / SLOTS)
        self._counts = self._empty
        self.known = True  # False after a restart from statistics of a newer version
        self._waiting: list[Table] = []
        self._eligible: list[BoolArray] = []
        self._prices: list[FloatArray] = []
        self._rounds_waiting = 0
        self._bytes_waiting = 0

    def restart(self, statistics: bytes, round_count: int) -> None:
        """Continue from encoded statistics.

        If they are damaged, counting restarts at zero, and `uncounted` is the number of omitted rounds. If a newer
        version encoded them, the statistics become unknown, and must not replace the newer version's.

        Args:
            statistics: encoded statistics; may be empty if `round_count` is 0.
            round_count: number of rounds in the log when they were encoded.
        """
        self._clear()
        self.known = True
        try:
            self._counts = decode_statistics(statistics)
        except NewerVersionError:
            self.known = False
        except ValueError:
            self._counts = dataclasses.replace(self._empty, uncounted=round_count)

    def use(
        self, labels: int | None, active: BoolArray | None = None, share: float = 0.0, since_change: int = 0
    ) -> None:
        """Record the model's current labels and holdout, which may have changed, in the statistics.

        Args:
            labels: K if the model answers one of K labels, else None.
            active: (K,), the mask of labels that are not retired; None if no label is retired.
            share: the holdout's share of the requests; 0 without a holdout.
            since_change: number of the change that set the holdout; its comparison counts from there.
        """
        retired = () if active is None else tuple(np.flatnonzero(active[:MOST_LABELS] == 0).tolist())
        if (self._counts.labels, self._counts.retired) != (labels, retired):
            self._counts = dataclasses.replace(self.counts(), labels=labels, retired=retired)
        if (self._counts.uplift.share, self._counts.uplift.since_change) != (share, since_change):
            counts = self.counts()
            uplift = UpliftSums(since_change, counts.uncounted + counts.rounds + 1, share)
            self._counts = dataclasses.replace(counts, uplift=uplift)

    def take(self, rounds: Table, parts: OptionalFields) -> None:
        """Queue a table of the next n rounds, and their optional parts, for counting."""
        self._waiting.append(rounds)
        self._eligible.append(parts.eligible)
        self._prices.append(parts.prices if parts.prices.size else np.full((len(rounds), 2), np.nan))
        self._rounds_waiting += len(rounds)
        self._bytes_waiting += rounds.nbytes + len(rounds) * (self._counts.labels or 0)  # a byte for each in a mask
        if self._rounds_waiting >= _COUNT_AT_ONCE or self._bytes_waiting >= _BYTES_AT_ONCE:
            self._count()

    def counts(self) -> RoundStatistics:
        """Return the statistics up to the last round taken."""
        if self._waiting:
            self._count()
        return self._counts

    def _count(self) -> None:
        names = [*_COLUMNS, *(_UPLIFT_COLUMNS if self._counts.uplift.share else ())]
        names += [] if self._counts.labels is None else ["output", "truth"]
        columns = {name: np.concatenate([table[name] for table in self._waiting]) for name in names}
        truths = columns.get("truth", np.full(len(columns["reward"]), NO_LABEL))
        columns["abstained"] = abstentions(columns["reward"], truths)
        if self._counts.labels is not None:
            columns["eligible"] = _joined(self._eligible, self._counts.labels)
        weights, paid = np.concatenate(self._prices).T
        held = (columns["flags"] & HOLDOUT) != 0
        known = ~np.isnan(paid) & (held | (weights >= 0.0))
        costs = with_costs(self._counts.costs, paid[known], held[known])
        self._counts = dataclasses.replace(_detailed(_counted(self._counts, columns), columns), costs=costs)
        self._clear()

    def _clear(self) -> None:
        self._waiting.clear()
        self._eligible.clear()
        self._prices.clear()
        self._rounds_waiting = self._bytes_waiting = 0


def _counted(counts: RoundStatistics, table: dict[str, np.ndarray[Any, Any]]) -> RoundStatistics:
    """Add further rounds, given as columns, to the sums over all rounds; return the new statistics."""
    reward, p, given = table["reward"], table["propensity"], table["kind"] == FEEDBACK
    waited = (table["feedback_at"] - table["predicted_at"])[given]
    correct, delays = reward == 1.0, np.maximum(waited, 0.0)  # clocks differ: a delay may be negative
    p = p[weighable(p)]
    return dataclasses.replace(
        counts,
        rounds=counts.rounds + len(correct),
        correct=counts.correct + int(correct.sum()),
        reward=added(counts.reward, reward),
        expired=counts.expired + len(correct) - len(delays),
        abstained=counts.abstained + int(table["abstained"].sum()),
        delays=_bucketed(counts.delays, delays, DELAY_BOUNDS),
        delay_seconds=added(counts.delay_seconds, delays),
        propensities=_bucketed(counts.propensities, p, PROPENSITY_BOUNDS),
        weighed=counts.weighed + len(p),
        propensity_sum=added(counts.propensity_sum, p),
        surprisal_micronats=counts.surprisal_micronats + int(np.rint(-np.log(p) * _MICRO).sum()),
        recent=_slotted(counts, table["predicted_at"]),
    )


def _detailed(counts: RoundStatistics, table: dict[str, np.ndarray[Any, Any]]) -> RoundStatistics:
    """Add further rounds, given as columns, to the sums that separate the holdout; return the new statistics."""
    reward, p, held = table["reward"], table["propensity"], (table["flags"] & HOLDOUT) != 0
    ours, known, of_holdout = ~held, weighable(p), reward[held]
    answered = reward[ours & ~table["abstained"]]
    labels, eligible, count = table.get("output", _NO_LABELS), counts.eligible, counts.labels or 1
    among, uniform, by_label, chance = np.ones(len(p)), np.zeros(len(p)), counts.by_label, counts.chance
    if len(labels):
        mask, weighed = table["eligible"], ours & known
        among = mask.sum(axis=1) if mask.shape[1] else np.full(len(p), count)
        uniform = 1.0 / among
        by_label = with_rounds(by_label, labels[ours], reward[ours], p[ours], known[ours])
        chance = with_chance(chance, reward[ours], p[ours], among[ours], known[ours])
        eligible = with_eligible(eligible, labels[weighed], mask[weighed], count)
    weight = np.divide(1.0, among * p, out=np.zeros(len(p)), where=known)
    uplift = counts.uplift
    if uplift.share:
        foreign = (table["flags"] & FOREIGN) != 0
        rows = ArmRows(
            *(table["changes_seen"], table["token"], foreign, held, reward),
            *(table["kind"] != FEEDBACK, table["predicted_at"]),
        )
        uplift = with_arms(uplift, rows)
    return dataclasses.replace(
        counts,
        by_label=by_label,
        eligible=eligible,
        chance=chance,
        curve=extended_curve(counts.curve, CurveRows(ours, reward, weight, table["feedback_at"])),
        latest=extended_latest(counts.latest, LatestRows(ours, known, reward, p, uniform, labels)),
        answered=counts.answered + len(answered),
        answered_reward=added(counts.answered_reward, answered),
        answered_squares=added(counts.answered_squares, answered * answered),
        holdout_rounds=counts.holdout_rounds + len(of_holdout),
        holdout_reward=added(counts.holdout_reward, of_holdout),
        holdout_squares=added(counts.holdout_squares, of_holdout * of_holdout),
        uplift=uplift,
    )


def _joined(masks: Sequence[BoolArray], labels: int) -> BoolArray:
    """Join masks of the eligible labels: (n, K), or (n, 0) if every label was eligible in every round."""
    if any(mask.shape[1] for mask in masks):
        masks = [mask if mask.shape[1] else np.ones((len(mask), labels), np.bool_) for mask in masks]
    return np.concatenate(masks)


def _bucketed(before: tuple[int, ...], values: FloatArray, bounds: tuple[float, ...]) -> tuple[int, ...]:
    found = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    return tuple((np.array(before) + found).tolist())


def _slotted(counts: RoundStatistics, predicted_at: FloatArray) -> tuple[tuple[int, int], ...]:
    """Return the number of rounds predicted in each time slot that can still contain open predictions."""
    slots, found = np.unique(np.floor_divide(predicted_at, counts.slot_seconds).astype(np.int64), return_counts=True)
    recent = dict(counts.recent)
    for slot, n in zip(slots.tolist(), found.tolist(), strict=True):
        recent[slot] = recent.get(slot, 0) + n
    newest = max(recent)
    return tuple(sorted((slot, n) for slot, n in recent.items() if slot >= newest - SLOTS))


def _tupled(value: object) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value

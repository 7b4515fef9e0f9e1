"""Sums over rounds for the statistics: by label, over the latest rounds, and along the log."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from service.store.records.outcomes import LATEST

MOST_LABELS = 256
"""Labels with a number below this are counted individually; the rounds of all others are counted together."""


class LabelSums(NamedTuple):
    """Sums by label: the first `MOST_LABELS` labels by number, then all others together.

    The weight of a round is 1/p. The first three sums cover every round, the others only rounds with a known weight.
    """

    rounds: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()  # reward²
    weighed: tuple[int, ...] = ()  # rounds with a weight
    weights: tuple[float, ...] = ()
    reward_weights: tuple[float, ...] = ()  # reward·weight
    squared_weights: tuple[float, ...] = ()
    reward_squared_weights: tuple[float, ...] = ()  # reward·weight²
    squared_reward_weights: tuple[float, ...] = ()  # (reward·weight)²

    def __bool__(self) -> bool:
        """Whether any round was counted."""
        return bool(self.rounds)


NO_LABEL_SUMS = LabelSums()


def with_rounds(sums: LabelSums, labels: IntArray, reward: FloatArray, p: FloatArray, known: BoolArray) -> LabelSums:
    """Return the sums with n more rounds, added one at a time: the result does not depend on batches.

    Args:
        sums: the sums before.
        labels: (n,), the label number of each round.
        reward: (n,).
        p: (n,), the propensities.
        known: (n,), whether the weight 1/p is known (`learners.evaluation.weights`).
    """
    if not len(labels):
        return sums
    slots = np.minimum(labels.astype(np.int64), MOST_LABELS)
    weight = 1.0 / p[known]
    weighted = reward[known] * weight
    every = (1.0, reward, reward * reward)
    weighed = (1.0, weight, weighted, weight * weight, weighted * weight, weighted * weighted)
    terms = [(slots, term) for term in every] + [(slots[known], term) for term in weighed]
    size = max(len(sums.rounds), int(slots.max()) + 1)
    columns = [_extended(column, size, *term) for column, term in zip(sums, terms, strict=True)]
    sums = LabelSums(*map(tuple, columns))  # type: ignore[arg-type]
    return sums._replace(rounds=_as_counts(columns[0]), weighed=_as_counts(columns[3]))


class EligibleRounds(NamedTuple):
    """Numbers of rounds with a known weight in which each of the first `MOST_LABELS` labels was eligible."""

    all: tuple[int, ...] = ()
    until_answered: tuple[int, ...] = ()  # up to the last round that answered the label


NO_ELIGIBLE_ROUNDS = EligibleRounds()


def with_eligible(rounds: EligibleRounds, answered: IntArray, mask: BoolArray, labels: int) -> EligibleRounds:
    """Return the numbers with n more rounds; the result does not depend on batches.

    Args:
        rounds: the numbers before.
        answered: (n,), the label number of each round.
        mask: (n, K), marks the eligible labels; (n, 0) if all were eligible.
        labels: K.
    """
    until = dict(enumerate(rounds.until_answered))
    for k in set(answered[answered < MOST_LABELS].tolist()):
        n = int(np.flatnonzero(answered == k)[-1]) + 1
        until[k] = sum(rounds.all[k : k + 1]) + int(mask[:n, k].sum() if mask.shape[1] else n)
    counted = min(labels, MOST_LABELS)
    found = mask[:, :counted].sum(axis=0).tolist() if mask.shape[1] else [len(mask)] * counted
    every = tuple(map(sum, itertools.zip_longest(rounds.all, found, fillvalue=0)))
    return EligibleRounds(every, tuple(until.get(k, 0) for k in range(max(until, default=-1) + 1)))


def read_eligible(fields: Any) -> EligibleRounds:
    """Read numbers of rounds from decoded JSON; raise `ValueError` or `TypeError` if they are not as described."""
    rounds = EligibleRounds(*fields)
    if max(map(len, rounds)) > MOST_LABELS:
        raise ValueError("invalid numbers of eligible rounds")
    return rounds


CLIPS = (64.0, math.inf)
"""Bounds on the weights of explored draws: verdicts need one, else a draw may outweigh all others; values have none."""

EVERY_DRAW = slice(0, None, len(CLIPS))
"""The entries of `with_chance` that together sum all draws, with weights that have no bound."""

FAVOURITE = 0.5
"""At most one label of a round is more probable than this: its favourite. A draw of any other label explores."""


def with_chance(sums: LabelSums, reward: FloatArray, p: FloatArray, among: IntArray, known: BoolArray) -> LabelSums:
    """Return sums by kind of draw, instead of by label, with n more rounds; `among` is K, the eligible labels of each.

    The weight of a round is 1/(K p), as for uniform draws. The first entry sums the draws of favourites. Then each of
    `CLIPS` has an entry that sums all explored draws, with weights clipped at this bound.
    """
    favourite, n = p > FAVOURITE, len(p)
    rows = [np.flatnonzero(favourite), *[np.flatnonzero(~favourite)] * len(CLIPS)]
    places = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    least = np.array([0.0, *(1.0 / clip for clip in CLIPS)])[places]
    every = np.concatenate(rows) if n else np.empty(0, np.int64)
    return with_rounds(sums, places, reward[every], np.maximum((among * p)[every], least), known[every])


def read_label_sums(fields: Any) -> LabelSums:
    """Read sums from decoded JSON.

    Raises:
        ValueError, TypeError: if they are not as `LabelSums` describes.
    """
    sums = LabelSums(*fields)
    if len({len(column) for column in sums}) != 1 or len(sums.rounds) > MOST_LABELS + 1:
        raise ValueError("invalid sums by label")
    return sums


def _extended(column: tuple[float, ...], size: int, slots: IntArray, terms: FloatArray | float) -> list[float]:
    total = np.zeros(size)
    total[: len(column)] = column
    np.add.at(total, slots, terms)  # in the order of the rounds
    values: list[float] = total.tolist()
    return values


def _as_counts(column: list[float]) -> tuple[int, ...]:
    return tuple(map(int, column))


EPOCH = 1000
"""Rounds of the log in an epoch. The latest rounds are the current epoch and the one before."""

_MICRO = 1e6


class Epoch(NamedTuple):
    """Sums over the rounds of one epoch, without the holdout."""

    rounds: int = 0
    reward: float = 0.0
    squares: float = 0.0  # reward²
    weighed: int = 0  # rounds with a known weight 1/p; only these count in the next three sums
    propensity: float = 0.0
    uniform: float = 0.0  # sum of 1/K for K eligible labels, the propensities of uniform draws
    surprisal_micronats: int = 0  # sum of −ln p
    labels: tuple[int, ...] = ()  # rounds by label, as in `LabelSums`


class LatestRounds(NamedTuple):
    """The current epoch and the one before."""

    places: int = 0  # rounds of the log in the current epoch, including holdout rounds
    current: Epoch = Epoch()
    before: Epoch = Epoch()


NO_LATEST = LatestRounds()


class LatestRows(NamedTuple):
    """The next n rounds of a log."""

    counted: BoolArray  # (n,), whether the sums include a round
    known: BoolArray  # (n,), whether its weight is known
    reward: FloatArray  # (n,)
    p: FloatArray  # (n,)
    uniform: FloatArray  # (n,), 1/K for K eligible labels; 0 if the model does not answer one of K labels
    labels: IntArray  # (n,); (0,) if the model does not answer one of K labels

    def between(self, start: int, stop: int) -> "LatestRows":
        """Return rounds start … stop - 1."""
        return LatestRows(*[column[start:stop] for column in self])  # type: ignore[arg-type]


def extended_latest(latest: LatestRounds, rows: LatestRows) -> LatestRounds:
    """Return the sums with n more rounds, added one at a time: the result does not depend on batches."""
    done, n = 0, len(rows.counted)
    while done < n:
        if latest.places == EPOCH:
            latest = LatestRounds(0, Epoch(), latest.current)
        take = min(n - done, EPOCH - latest.places)
        current = _with(latest.current, rows.between(done, done + take))
        latest = LatestRounds(latest.places + take, current, latest.before)
        done += take
    return latest


def read_latest(fields: Any) -> LatestRounds:
    """Read sums from decoded JSON.

    Raises:
        ValueError, TypeError: if they are not as `LatestRounds` describes.
    """
    places, current, before = fields
    latest = LatestRounds(places, Epoch(*current), Epoch(*before))
    if not 0 <= places <= EPOCH or max(len(latest.current.labels), len(latest.before.labels)) > MOST_LABELS + 1:
        raise ValueError("invalid sums of the latest rounds")
    return latest


def joined(latest: LatestRounds) -> Epoch:
    """Return the sums over both epochs."""
    a, b = latest.before, latest.current
    size = max(len(a.labels), len(b.labels))
    labels = np.zeros(size, np.int64)
    for epoch in (a, b):
        labels[: len(epoch.labels)] += np.array(epoch.labels, np.int64)
    return Epoch(
        a.rounds + b.rounds,
        a.reward + b.reward,
        a.squares + b.squares,
        a.weighed + b.weighed,
        a.propensity + b.propensity,
        a.uniform + b.uniform,
        a.surprisal_micronats + b.surprisal_micronats,
        tuple(labels.tolist()),
    )


def _with(epoch: Epoch, rows: LatestRows) -> Epoch:
    weighed = rows.counted & rows.known
    reward, p = rows.reward[rows.counted], rows.p[weighed]
    return Epoch(
        epoch.rounds + len(reward),
        added(epoch.reward, reward),
        added(epoch.squares, reward * reward),
        epoch.weighed + len(p),
        added(epoch.propensity, p),
        added(epoch.uniform, rows.uniform[weighed]),
        epoch.surprisal_micronats + int(np.rint(-np.log(p) * _MICRO).sum()),
        _by_label(epoch.labels, rows.labels[rows.counted]) if len(rows.labels) else epoch.labels,
    )


def _by_label(before: tuple[int, ...], labels: IntArray) -> tuple[int, ...]:
    if not len(labels):
        return before
    found = np.bincount(np.minimum(labels, MOST_LABELS), minlength=len(before))
    found[: len(before)] += np.array(before, found.dtype)
    return tuple(found.tolist())


def added(total: float, terms: FloatArray) -> float:
    """Add terms one by one: the result does not depend on batches, and is at least `total` if no term is negative."""
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])


class CostSums(NamedTuple):
    """Sums over the rounds whose answers have a cost. Imported rounds, which another policy decided, are left out."""

    rounds: int = 0  # that the learner answered
    cost: float = 0.0
    latest: float = 0.0  # their mean, in which older rounds count less and less: by half after about 700 rounds
    holdout_rounds: int = 0
    holdout_cost: float = 0.0


NO_COST_SUMS = CostSums()
_LATEST_ROUNDS = 1_000.0


def with_costs(sums: CostSums, paid: FloatArray, held: BoolArray) -> CostSums:
    """Add the costs of further rounds, (n,), and whether the holdout answered them, (n,)."""
    ours, n, latest = paid[~held], sums.rounds, sums.latest
    for cost in ours.tolist():
        n += 1
        latest += (cost - latest) / min(n, _LATEST_ROUNDS)
    of_holdout = paid[held]
    return CostSums(
        n,
        added(sums.cost, ours),
        latest,
        sums.holdout_rounds + len(of_holdout),
        added(sums.holdout_cost, of_holdout),
    )


def read_costs(fields: Any) -> CostSums:
    """Read sums of costs from decoded JSON; raise `ValueError` or `TypeError` if they are not as described."""
    sums = CostSums(*fields)
    if not all(math.isfinite(number) and number >= 0 for number in sums):
        raise ValueError("invalid sums of costs")
    return sums


MOST_BUCKETS = 128
"""Maximum buckets of a curve. When all are full, neighbours are joined, so the width doubles."""


class RewardCurve(NamedTuple):
    """Sums by bucket. A bucket covers `width` consecutive rounds of the log; the last one may cover fewer.

    Rounds of the holdout take up places in a bucket, but no sum includes them.
    """

    width: int = 1
    places: int = 0  # rounds of the log that the curve covers
    rounds: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()  # reward²
    weights: tuple[float, ...] = ()  # 1/(K p) for K eligible labels
    reward_weights: tuple[float, ...] = ()  # reward/(K p)
    moments: tuple[float, ...] = ()  # latest feedback or expiry up to the end of the bucket, in seconds since the epoch


NO_CURVE = RewardCurve()


class CurveRows(NamedTuple):
    """The next n rounds of a log."""

    counted: BoolArray  # (n,), whether the sums include a round
    reward: FloatArray  # (n,)
    weight: FloatArray  # (n,), 1/(K p) for K eligible labels, as for uniform draws; 0 if unknown
    moment: FloatArray  # (n,), when the feedback came or the prediction expired, in seconds since the epoch

    def between(self, start: int, stop: int) -> "CurveRows":
        """Return rounds start … stop - 1."""
        return CurveRows(*[column[start:stop] for column in self])  # type: ignore[arg-type]


def extended_curve(curve: RewardCurve, rows: CurveRows) -> RewardCurve:
    """Return the curve with n more rounds, added one at a time: the result does not depend on batches."""
    done, n = 0, len(rows.counted)
    while done < n:
        if curve.places == MOST_BUCKETS * curve.width:
            curve = _halved(curve)
        take = min(n - done, MOST_BUCKETS * curve.width - curve.places)
        curve = _with_rows(curve, rows.between(done, done + take))
        done += take
    return curve


def read_curve(fields: Any) -> RewardCurve:
    """Read a curve from decoded JSON.

    Raises:
        ValueError, TypeError: if it is not as `RewardCurve` describes, or a moment is one that rounds cannot have.
    """
    curve = RewardCurve(*fields)
    sizes = {len(column) for column in curve[2:]}
    if curve.width < 1 or sizes != {-(-curve.places // curve.width)} or max(sizes) > MOST_BUCKETS:
        raise ValueError("invalid curve")
    if not all(early <= late for early, late in itertools.pairwise((0.0, *curve.moments, LATEST))):
        raise ValueError("invalid moments of a curve")
    return curve


def _with_rows(curve: RewardCurve, rows: CurveRows) -> RewardCurve:
    places = curve.places + len(rows.counted)
    bucket = (np.arange(curve.places, places) // curve.width)[rows.counted]
    reward, weight = rows.reward[rows.counted], rows.weight[rows.counted]
    terms = (reward, reward * reward, weight, reward * weight)
    size = -(-places // curve.width)
    sums = [_summed(column, size, bucket, term) for column, term in zip(curve[3:-1], terms, strict=True)]
    counts = _summed(tuple(map(float, curve.rounds)), size, bucket, np.ones(len(bucket)))
    return RewardCurve(curve.width, places, tuple(map(int, counts)), *[*sums, _moments(curve, rows.moment)])


def _moments(curve: RewardCurve, moment: FloatArray) -> tuple[float, ...]:
    """Return the moments of the buckets with n more rounds; they never decrease, although clocks of workers differ."""
    full, places = curve.places // curve.width, curve.places + len(moment)
    latest = np.maximum.accumulate(np.concatenate((curve.moments[-1:], moment)))[-len(moment) :]
    ends = np.minimum(np.arange(full + 1, -(-places // curve.width) + 1) * curve.width, places)
    return (*curve.moments[:full], *latest[ends - curve.places - 1].tolist())


def _summed(column: tuple[float, ...], size: int, bucket: IntArray, terms: FloatArray) -> tuple[float, ...]:
    total = np.zeros(size)
    total[: len(column)] = column
    np.add.at(total, bucket, terms)  # in the order of the rounds
    return tuple(total.tolist())


def _halved(curve: RewardCurve) -> RewardCurve:
    """Join each pair of neighbours of a full curve."""
    joined = [tuple(a + b for a, b in zip(column[::2], column[1::2], strict=True)) for column in curve[2:-1]]
    return RewardCurve(2 * curve.width, curve.places, *[*joined, curve.moments[1::2]])  # type: ignore[arg-type]

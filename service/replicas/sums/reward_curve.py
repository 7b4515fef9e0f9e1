"""The rewards over the course of the log, in a bounded number of buckets of equal width."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray

MOST_BUCKETS = 128
"""Maximum buckets. When all are full, their width doubles, and neighbours are joined."""


class RewardCurve(NamedTuple):
    """Sums by bucket. A bucket covers `width` rounds of the log; the last one may have fewer.

    Rounds of the holdout take places of the log, and are in no sum.
    """

    width: int = 1
    places: int = 0  # rounds of the log that the curve covers
    rounds: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()  # reward²
    weights: tuple[float, ...] = ()  # 1/p
    reward_weights: tuple[float, ...] = ()  # reward/p


NO_CURVE = RewardCurve()


class CurveRows(NamedTuple):
    """The n next rounds of a log."""

    counted: BoolArray  # (n,), whether a round is in the sums
    reward: FloatArray  # (n,)
    weight: FloatArray  # (n,), 1/p; 0 where it is unknown

    def part(self, start: int, stop: int) -> "CurveRows":
        """Return some of the rounds."""
        return CurveRows(self.counted[start:stop], self.reward[start:stop], self.weight[start:stop])


def extended_curve(curve: RewardCurve, rows: CurveRows) -> RewardCurve:
    """Return the curve extended by rounds. Sums add one round at a time, so batches do not matter."""
    done, n = 0, len(rows.counted)
    while done < n:
        if curve.places == MOST_BUCKETS * curve.width:
            curve = _halved(curve)
        take = min(n - done, MOST_BUCKETS * curve.width - curve.places)
        curve = _with(curve, rows.part(done, done + take))
        done += take
    return curve


def read_curve(fields: Any) -> RewardCurve:
    """Return a decoded curve.

    Raises:
        ValueError: if it is not as `RewardCurve` describes.
    """
    curve = RewardCurve(*fields)
    sizes = {len(column) for column in curve[2:]}
    if curve.width < 1 or sizes != {-(-curve.places // curve.width)} or max(sizes) > MOST_BUCKETS:
        raise ValueError("invalid curve")
    return curve


def _with(curve: RewardCurve, rows: CurveRows) -> RewardCurve:
    places = curve.places + len(rows.counted)
    bucket = (np.arange(curve.places, places) // curve.width)[rows.counted]
    reward, weight = rows.reward[rows.counted], rows.weight[rows.counted]
    terms = (reward, reward * reward, weight, reward * weight)
    size = -(-places // curve.width)
    sums = [_summed(column, size, bucket, term) for column, term in zip(curve[3:], terms, strict=True)]
    counts = _summed(tuple(map(float, curve.rounds)), size, bucket, np.ones(len(bucket)))
    return RewardCurve(curve.width, places, tuple(map(int, counts)), *sums)


def _summed(column: tuple[float, ...], size: int, bucket: IntArray, terms: FloatArray) -> tuple[float, ...]:
    total = np.zeros(size)
    total[: len(column)] = column
    np.add.at(total, bucket, terms)  # in the order of the rounds
    return tuple(total.tolist())


def _halved(curve: RewardCurve) -> RewardCurve:
    """Join each pair of neighbours of a full curve."""
    joined = [tuple(a + b for a, b in zip(column[::2], column[1::2], strict=True)) for column in curve[2:]]
    return RewardCurve(2 * curve.width, curve.places, *joined)  # type: ignore[arg-type]

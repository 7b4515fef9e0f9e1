"""Sums over the latest rounds: the current epoch of `EPOCH` rounds of the log, and the one before it."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from service.replicas.sums.label_sums import MOST_LABELS

EPOCH = 1000
"""Rounds of the log in an epoch. The latest rounds are those of one to two epochs."""

_MICRO = 1e6


class Epoch(NamedTuple):
    """Sums over the rounds of one epoch, without the holdout."""

    rounds: int = 0
    reward: float = 0.0
    squares: float = 0.0  # reward²
    weighed: int = 0  # rounds with a known weight 1/p, which the following sums cover
    propensity: float = 0.0
    surprisal_micronats: int = 0  # −ln p
    labels: tuple[int, ...] = ()  # rounds by label, as in `LabelSums`


class LatestRounds(NamedTuple):
    """The current epoch and the one before."""

    places: int = 0  # rounds of the log in the current epoch
    current: Epoch = Epoch()
    before: Epoch = Epoch()


NO_LATEST = LatestRounds()


class LatestRows(NamedTuple):
    """The n next rounds of a log."""

    counted: BoolArray  # (n,), whether a round is in the sums
    known: BoolArray  # (n,), whether its weight is known
    reward: FloatArray  # (n,)
    p: FloatArray  # (n,)
    labels: IntArray  # (n,); (0,) if the model does not answer one of K labels

    def part(self, start: int, stop: int) -> "LatestRows":
        """Return some of the rounds."""
        rows = slice(start, stop)
        return LatestRows(self.counted[rows], self.known[rows], self.reward[rows], self.p[rows], self.labels[rows])


def extended_latest(latest: LatestRounds, rows: LatestRows) -> LatestRounds:
    """Return the sums extended by rounds. Sums add one round at a time, so batches do not matter."""
    done, n = 0, len(rows.counted)
    while done < n:
        if latest.places == EPOCH:
            latest = LatestRounds(0, Epoch(), latest.current)
        take = min(n - done, EPOCH - latest.places)
        current = _with(latest.current, rows.part(done, done + take))
        latest = LatestRounds(latest.places + take, current, latest.before)
        done += take
    return latest


def read_latest(fields: Any) -> LatestRounds:
    """Return decoded sums.

    Raises:
        ValueError: if they are not as `LatestRounds` describes.
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
        a.surprisal_micronats + b.surprisal_micronats,
        tuple(labels.tolist()),
    )


def _with(epoch: Epoch, rows: LatestRows) -> Epoch:
    reward, p = rows.reward[rows.counted], rows.p[rows.counted & rows.known]
    return Epoch(
        epoch.rounds + len(reward),
        added(epoch.reward, reward),
        added(epoch.squares, reward * reward),
        epoch.weighed + len(p),
        added(epoch.propensity, p),
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
    """Add terms one by one. The result does not depend on how terms are batched, and is never below `total`."""
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])

"""The best constant label, chosen on one half of the log and evaluated on the other.

The largest of many estimates is biased upwards, because it is selected partly by chance. With independent halves, the
estimates and intervals from the second half are valid for the label that the first half chooses.
"""

from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.sums import uniforms

_Z = 1.96


class LabelSums(NamedTuple):
    """Sums over the rounds of the choosing half, for each label (K,)."""

    weights: FloatArray  # 1 / propensity of the rounds that answered the label
    squares: FloatArray  # their squares
    rewards: FloatArray  # reward / propensity

    def merge(self, other: "LabelSums") -> "LabelSums":
        """Return the sums over the rounds of both."""
        return LabelSums(*[one + two for one, two in zip(self, other, strict=True)])


def chooses(seed: int, numbers: IntArray) -> BoolArray:
    """Return whether each round belongs to the half that chooses the label, (n,)."""
    return np.asarray(uniforms(seed, 2, numbers) < 0.5)


def label_sums(rounds: LoggedRounds, n_labels: int, seed: int) -> LabelSums:
    """Return the sums over the rounds of the choosing half."""
    among = chooses(seed, rounds.numbers)
    weights, labels = 1.0 / rounds.propensities[among], rounds.labels[among]
    columns = (weights, weights * weights, weights * rounds.rewards[among])
    return LabelSums(*[np.bincount(labels, column, n_labels).astype(np.float64) for column in columns])


def choose_label(sums: LabelSums) -> int:
    """Return the label whose mean reward has the largest lower bound: Wilson's, with the effective number of rounds."""
    known = sums.squares > 0.0
    n = np.divide(sums.weights**2, sums.squares, out=np.zeros(len(known)), where=known)
    mean = np.divide(sums.rewards, sums.weights, out=np.zeros(len(known)), where=known)
    spread = np.sqrt(mean * (1.0 - mean) * n + _Z * _Z / 4.0)
    low = np.where(known, (mean * n + _Z * _Z / 2.0 - _Z * spread) / (n + _Z * _Z), -1.0)
    return int(low.argmax())

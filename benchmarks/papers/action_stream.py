"""Rounds with candidates, and the share of the gap between uniform choices and the oracle's that a player closes."""

from typing import NamedTuple

import numpy as np

from learners.actions.base import Candidates
from learners.base import Contexts, FloatArray, IntArray


class ActionStream(NamedTuple):
    """Rounds with candidates, and the rewards of all of them."""

    n_features: int
    candidates: Candidates
    rewards: FloatArray  # (m,) in [0, 1], what a player receives
    expected: FloatArray  # (m,) in [0, 1], their means given the features

    def loss(self, choices: IntArray) -> float:
        """Return the mean expected loss, 1 - reward, of choices (n,), positions within their rounds."""
        return 1.0 - float(self.expected[self.candidates.starts[:-1] + choices].mean())

    @property
    def uniform_loss(self) -> float:
        """The mean expected loss of uniform choices."""
        starts = self.candidates.starts
        return 1.0 - float((np.add.reduceat(self.expected, starts[:-1]) / np.diff(starts)).mean())

    @property
    def oracle_loss(self) -> float:
        """The mean expected loss of an oracle, which chooses the candidate with the highest expected reward."""
        return 1.0 - float(np.maximum.reduceat(self.expected, self.candidates.starts[:-1]).mean())


def of_rounds(
    vectors: Contexts, n_features: int, shown: int, rewards: FloatArray, expected: FloatArray
) -> ActionStream:
    """Return the stream whose rounds show the same number of candidates each; all are eligible."""
    candidates = Candidates(vectors, np.arange(0, vectors.n + 1, shown), np.empty(0, np.bool_))
    return ActionStream(n_features, candidates, rewards, expected)


def closed_share(loss: FloatArray, uniform: FloatArray, oracle: FloatArray) -> FloatArray:
    """Return the closed share of the gap between uniform choices and the oracle's: 0 for the former, 1 for the latter.

    Args:
        loss: a player's mean loss, for each seed.
        uniform: that of uniform choices.
        oracle: that of the oracle.
    """
    return (uniform - loss) / (uniform - oracle)

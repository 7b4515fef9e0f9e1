"""Streams of rounds in chunks. A seed gives the same stream on every machine."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Problem

CHUNK = 50_000
"""Rounds per chunk, which limits the memory."""


class Chunk(NamedTuple):
    """Consecutive rounds."""

    contexts: Contexts
    labels: IntArray  # (n,) int64, the true labels; the most likely labels where several or none can be right
    right: BoolArray | None = None  # (n, K), which labels are right; None: the true labels alone
    rewards: FloatArray | None = None  # (n, K) in [0, 1], graded rewards; None: 1 for right labels, 0 for others

    def losses(self, n_labels: int) -> FloatArray:
        """Return the loss of each label, 1 - reward, (n, K)."""
        if self.rewards is not None:
            return 1.0 - self.rewards
        right = np.eye(n_labels, dtype=np.bool_)[self.labels] if self.right is None else self.right
        return 1.0 - right.astype(np.float64)


class Stream(NamedTuple):
    """A source of rounds."""

    problem: Problem
    size: int | None  # examples in the data set; None for a generated stream, which has no end
    chunk: Callable[[int, int, int], Chunk]  # (seed, index of the chunk, its rounds); a shorter chunk is a prefix

    def chunks(self, rounds: int, seed: int) -> Iterator[Chunk]:
        """Yield the first rounds of a seed in chunks. Each pass over a data set has a new order."""
        for place, start in enumerate(range(0, rounds, CHUNK)):
            yield self.chunk(seed, place, min(CHUNK, rounds - start))


def without_features(stream: Stream) -> Stream:
    """Return the same rounds with a constant 1 in place of each context."""

    def chunk(seed: int, place: int, n: int) -> Chunk:
        return stream.chunk(seed, place, n)._replace(contexts=Contexts.dense(np.ones((n, 1))))

    return Stream(Problem(stream.problem.n_labels, 1), stream.size, chunk)

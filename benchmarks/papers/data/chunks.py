"""Streams of rounds in chunks. A seed gives the same stream on every machine."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from learners.base import BoolArray, Contexts, IntArray, Problem

CHUNK = 50_000
"""Rounds per chunk, which limits the memory."""


class Chunk(NamedTuple):
    """Consecutive rounds."""

    contexts: Contexts
    labels: IntArray  # (n,) int64, the true labels; the most likely labels where several or none can be right
    right: BoolArray | None = None  # (n, K), which labels are right; None: the true labels alone


class Stream(NamedTuple):
    """A source of rounds."""

    problem: Problem
    size: int | None  # examples in the data set; None for a generated stream, which has no end
    chunk: Callable[[int, int, int], Chunk]  # (seed, index of the chunk, its rounds); a shorter chunk is a prefix

    def chunks(self, rounds: int, seed: int) -> Iterator[Chunk]:
        """Yield the first rounds of a seed in chunks. Each pass over a data set has a new order."""
        for place, start in enumerate(range(0, rounds, CHUNK)):
            yield self.chunk(seed, place, min(CHUNK, rounds - start))

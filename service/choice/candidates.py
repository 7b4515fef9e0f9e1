"""A flat batch: the candidates of several requests in one array, and operations on it.

The candidates of request i are the entries `starts[i]` … `starts[i + 1] - 1` of every flat array: the K labels of a
model, or the actions of the request. A mask marks the eligible ones; a mask of size 0 means all.
"""

from typing import NamedTuple

import numpy as np

from learners.base import NO_PRICES, BoolArray, Contexts, FloatArray, IntArray, Prices
from learners.mathematics.limits import NO_LIMITS, Limits

EVERY = np.empty(0, np.bool_)  # the mask of a batch whose candidates are all eligible


class Candidates(NamedTuple):
    """The m candidates of n requests."""

    starts: IntArray  # (n + 1,), from 0 to m
    eligible: BoolArray  # (m,), at least one for each request; (0,) if all are
    contexts: Contexts  # not prepared: for labels, n contexts; for actions, m vectors of context and action together
    limits: Limits = NO_LIMITS  # set by the rules: of the K labels, or of m actions
    prices: Prices = NO_PRICES

    @property
    def n(self) -> int:
        """The number of requests."""
        return len(self.starts) - 1


def uniform(starts: IntArray, eligible: BoolArray) -> FloatArray:
    """Return the uniform distribution over the eligible candidates of each request, (m,)."""
    mass = eligible.astype(np.float64) if eligible.size else np.ones(starts[-1])
    shares: FloatArray = mass / np.repeat(np.add.reduceat(mass, starts[:-1]), np.diff(starts))
    return shares


def conditioned(probabilities: FloatArray, starts: IntArray, eligible: BoolArray) -> FloatArray:
    """Return distributions (m,) conditioned on a mask (m,); uniform if all marked candidates have probability 0."""
    mass = np.where(eligible, probabilities, 0.0)
    totals = np.repeat(np.add.reduceat(mass, starts[:-1]), np.diff(starts))
    given: FloatArray = np.where(totals > 0.0, mass / np.where(totals > 0.0, totals, 1.0), uniform(starts, eligible))
    return given


def without(starts: IntArray, eligible: BoolArray, chosen: IntArray) -> BoolArray:
    """Return the mask (m,) of the candidates that remain after request i chose the one at position `chosen[i]`."""
    left = eligible.copy() if eligible.size else np.ones(starts[-1], np.bool_)
    left[starts[:-1] + chosen] = False
    return left


def count_eligible(starts: IntArray, eligible: BoolArray) -> IntArray:
    """Return the number of eligible candidates of each request, (n,)."""
    if not eligible.size:
        return np.diff(starts)
    return np.add.reduceat(eligible.astype(np.int64), starts[:-1])

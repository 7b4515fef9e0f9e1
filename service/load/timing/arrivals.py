"""Arrival times of requests, which do not depend on the server."""

import itertools
from collections.abc import Iterator

import numpy as np

_AT_ONCE = 4096


def poisson_times(rate: float, rng: np.random.Generator) -> Iterator[float]:
    """Yield the times of an endless Poisson process, with independent exponential gaps.

    Args:
        rate: mean number of arrivals per second, greater than 0.
        rng: draws the gaps; the same generator state gives the same times.

    Yields:
        Seconds since the start, ascending.
    """
    now = 0.0
    while True:
        times = now + np.cumsum(rng.exponential(1 / rate, _AT_ONCE))
        yield from times.tolist()
        now = float(times[-1])


def times_within(rate: float, seconds: float, rng: np.random.Generator) -> Iterator[float]:
    """Yield the times of a Poisson process from 0 to `seconds`."""
    return itertools.takewhile(lambda time: time < seconds, poisson_times(rate, rng))

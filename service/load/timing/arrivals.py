"""When requests are to be sent: known before any is answered, whatever the server does."""

import itertools
from collections.abc import Iterator

import numpy as np

_AT_ONCE = 4096


def poisson_times(rate: float, rng: np.random.Generator) -> Iterator[float]:
    """Yields the times of a Poisson process, without end: independent exponential gaps.

    Args:
        rate: Mean number of arrivals per second, greater than 0.
        rng: Decides the gaps; the same generator state brings the same times.

    Yields:
        Seconds since the start, ascending.
    """
    now = 0.0
    while True:
        times = now + np.cumsum(rng.exponential(1 / rate, _AT_ONCE))
        yield from times.tolist()
        now = float(times[-1])


def times_within(rate: float, seconds: float, rng: np.random.Generator) -> Iterator[float]:
    """Yields the times of a Poisson process from 0 to `seconds`."""
    return itertools.takewhile(lambda time: time < seconds, poisson_times(rate, rng))

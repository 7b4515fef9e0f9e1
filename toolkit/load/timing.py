"""Precise timing: arrivals that do not depend on the server, scheduled actions, and a histogram of latencies."""

import asyncio
import contextlib
import ctypes
import heapq
import itertools
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np

_TIMER_ABSTIME = 1
_AT_ONCE = 4096  # intervals drawn together

Action = Callable[[float], None]
"""A scheduled function. It receives the time at which it was due."""


def poisson_times(rate: float, rng: np.random.Generator) -> Iterator[float]:
    """Yield the ascending times of an endless Poisson process, in seconds; `rate` is the mean number per second."""
    now = 0.0
    while True:
        times = now + np.cumsum(rng.exponential(1 / rate, _AT_ONCE))
        yield from times.tolist()
        now = float(times[-1])


def times_within(rate: float, seconds: float, rng: np.random.Generator) -> Iterator[float]:
    """Yield the times of a Poisson process from 0 to `seconds`."""
    return itertools.takewhile(lambda time: time < seconds, poisson_times(rate, rng))


class Pacer:
    """Starts actions when they are due, in the running event loop. Times are seconds of `time.perf_counter`.

    Attributes:
        lag: delays from due times to starts, which are the driver's share of the latencies.
    """

    def __init__(self) -> None:
        self.lag = Histogram()
        self._due: list[tuple[float, int, Action]] = []
        self._order = itertools.count()  # orders actions that are due at the same time
        self._loop = asyncio.get_running_loop()
        self._timer = _KernelTimer() if sys.platform == "linux" else None
        if self._timer is not None:
            self._loop.add_reader(self._timer.fd, self._ring)

    def at(self, due: float, action: Action) -> None:
        """Schedule an action."""
        heapq.heappush(self._due, (due, next(self._order), action))
        if self._due[0][0] == due:
            self._set(due)

    def stop(self) -> None:
        """Cancel all actions, and close the timer."""
        self._due = []
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            os.close(self._timer.fd)

    def _set(self, due: float) -> None:
        if self._timer is None:
            self._loop.call_later(max(0.0, due - time.perf_counter()), self._ring)
        else:
            self._timer.set(due)

    def _ring(self) -> None:
        if self._timer is not None:
            self._timer.clear()
        while self._due and self._due[0][0] <= (now := time.perf_counter()):
            due, _, action = heapq.heappop(self._due)
            self.lag.add(now - due)
            action(due)
        if self._due:
            self._set(self._due[0][0])


class _Moment(ctypes.Structure):
    """`struct itimerspec`: an interval and a time, each in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns"))


class _KernelTimer:
    """Linux's timerfd, on the clock of `time.perf_counter`. The timers of event loops round to milliseconds."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, when: float) -> None:
        moment = _Moment(0, 0, int(when), int(when % 1 * 1e9))
        self._libc.timerfd_settime(self.fd, _TIMER_ABSTIME, ctypes.byref(moment), None)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the timer was set again before it was read
            os.read(self.fd, 8)


_BITS = 11  # significant bits of a value
_HALF = _BITS - 1


@dataclass
class Histogram:
    """Counts durations to three significant digits, in bounded memory."""

    _counts: Counter[int] = field(default_factory=Counter)
    _greatest: int = 0  # microseconds

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def greatest(self) -> float:
        """The greatest duration in seconds, exact to the microsecond; 0 if there is none."""
        return self._greatest / 1e6

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one counts as 0."""
        value = max(0, int(seconds * 1e6))
        self._greatest = max(self._greatest, value)
        shift = max(0, value.bit_length() - _BITS)
        self._counts[(shift << _HALF) + (value >> shift)] += 1  # 2**_HALF ascending buckets for each shift

    def merge(self, other: Self) -> None:
        """Add all durations of another histogram."""
        self._counts.update(other._counts)
        self._greatest = max(self._greatest, other._greatest)

    def percentile(self, percent: float) -> float:
        """Return the smallest duration that `percent` % of all do not exceed, in seconds, rounded up; 0 if none."""
        wanted = max(1, math.ceil(len(self) * percent / 100 - 1e-6))  # ignores rounding errors
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                shift = max(0, (bucket >> _HALF) - 1)
                highest = ((bucket - (shift << _HALF) + 1) << shift) - 1
                return min(highest, self._greatest) / 1e6
        return 0.0


@dataclass
class Measured:
    """Counts and latencies of the requests that were due within a time window."""

    seconds: float = 0.0
    """Length of the window."""
    due: int = 0
    answered: int = 0
    """Responses with status 200 that arrived within the window, even if the request was due earlier."""
    not_sent: int = 0
    """Due requests that were not sent because too many were outstanding."""
    no_answer: int = 0
    """Sent requests without a response: the connection was lost or the timeout passed."""
    refused: int = 0
    """Requests answered with another status than 200."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from the due time of a request to its response, or until the client gave up."""

    @property
    def offered(self) -> float:
        """The requests due per second."""
        return self.due / self.seconds if self.seconds else 0.0

    @property
    def achieved(self) -> float:
        """The responses with status 200 per second."""
        return self.answered / self.seconds if self.seconds else 0.0

    def merge(self, other: Self) -> None:
        """Add the measurements of another process in the same window."""
        self.seconds = max(self.seconds, other.seconds)
        for name in ("due", "answered", "not_sent", "no_answer", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)

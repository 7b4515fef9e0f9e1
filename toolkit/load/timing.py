"""Precise timing: arrivals that do not depend on the server, alarms, and a histogram of latencies."""

import asyncio
import ctypes
import heapq
import itertools
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

import numpy as np

_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class Alarm(Protocol):
    """Calls back once, at the time that was set last."""

    def set(self, when: float) -> None:
        """Set the time in seconds of `time.perf_counter`. A past time rings immediately."""

    def close(self) -> None:
        """Cancel the callback and release the timer."""


def make_alarm(callback: Callable[[], None]) -> Alarm:
    """Create an alarm in the running event loop."""
    return _KernelAlarm(callback) if sys.platform == "linux" else _LoopAlarm(callback)


class _Moment(ctypes.Structure):
    """`struct itimerspec`: an interval and a time, each in seconds and nanoseconds."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class _KernelAlarm:
    """An alarm by Linux's timerfd on the monotonic clock, which `time.perf_counter` uses on Linux."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._callback = callback
        self._moment = _Moment(0, 0, 0, 0)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._ring)

    def set(self, when: float) -> None:
        self._moment.at_s, self._moment.at_ns = int(when), int(when % 1 * 1e9)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._moment), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # the alarm was set again between the ring and this call
            return
        self._callback()


class _LoopAlarm:
    """An alarm by the event loop's own timer, for other systems."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        self.close()
        self._handle = self._loop.call_later(max(0.0, when - time.perf_counter()), self._callback)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


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


Action = Callable[[float], None]
"""An action. It receives the time at which it was due."""


class Pacer:
    """Starts actions when they are due, in the running event loop. Times are seconds of `time.perf_counter`.

    Attributes:
        lag: how late actions were started, which is the driver's own share of the latencies.
    """

    def __init__(self) -> None:
        self.lag = Histogram()
        self._due: list[tuple[float, int, Action]] = []
        self._order = 0  # order of actions that are due at the same time
        self._alarm = make_alarm(self._ring)

    def at(self, due: float, action: Action) -> None:
        """Schedule an action."""
        self._order += 1
        heapq.heappush(self._due, (due, self._order, action))
        if self._due[0][1] == self._order:
            self._alarm.set(due)

    def stop(self) -> list[tuple[float, Action]]:
        """Start no more actions. Return the remaining ones with their times, in order."""
        self._alarm.close()
        left, self._due = sorted(self._due), []
        return [(due, action) for due, _, action in left]

    def _ring(self) -> None:
        while self._due and self._due[0][0] <= (now := time.perf_counter()):
            due, _, action = heapq.heappop(self._due)
            self.lag.add(now - due)
            action(due)
        if self._due:
            self._alarm.set(self._due[0][0])


_BITS = 11  # significant bits of a value that are kept
_HALF = _BITS - 1


class Histogram:
    """Counts of durations to three significant digits, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._greatest = 0

    def __len__(self) -> int:
        """Return the number of added durations."""
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
        self._counts[(shift << _HALF) + (value >> shift)] += 1

    def merge(self, other: Self) -> None:
        """Add all durations of another histogram."""
        self._counts.update(other._counts)
        self._greatest = max(self._greatest, other._greatest)

    def percentile(self, percent: float) -> float:
        """Return the smallest duration, in seconds, that `percent` of all do not exceed; 0 if there is none."""
        wanted = max(1, math.ceil(len(self) * percent / 100 - 1e-6))  # allows for rounding errors
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_highest(bucket), self._greatest) / 1e6
        return 0.0

    def to_json(self) -> dict[str, object]:
        """Return the counts by bucket in the form that `from_json` reads."""
        return {"greatest": self._greatest, "counts": {str(bucket): n for bucket, n in self._counts.items()}}

    @classmethod
    def from_json(cls, written: Mapping[str, object]) -> Self:
        """Read the output of `to_json`."""
        histogram = cls()
        greatest, counts = written["greatest"], written["counts"]
        assert isinstance(greatest, int)
        assert isinstance(counts, dict)
        histogram._greatest = greatest
        histogram._counts.update({int(bucket): int(n) for bucket, n in counts.items()})
        return histogram


def _highest(bucket: int) -> int:
    """Return the greatest value of a bucket, in microseconds."""
    shift = max(0, (bucket >> _HALF) - 1)
    return ((bucket - (shift << _HALF) + 1) << shift) - 1


@dataclass
class Measured:
    """Counts and latencies of the requests that were due within a time window."""

    seconds: float = 0.0
    """Length of the window."""
    due: int = 0
    """Requests that were due."""
    answered: int = 0
    """Responses with status 200 that came within the window, even if the request was due earlier."""
    not_sent: int = 0
    """Due requests that were not sent because too many were outstanding."""
    no_answer: int = 0
    """Sent requests without a response: the connection was lost or the timeout passed."""
    refused: int = 0
    """Requests answered with another status than 200."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from the time a request was due until its response, or until the client gave up."""

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

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the form that `from_json` reads."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"latency": self.latency.to_json()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`."""
        return cls(**{**written, "latency": Histogram.from_json(written["latency"])})

"""Callbacks at a precise time. Event loops round timers up to a millisecond, longer than a fast response takes."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

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

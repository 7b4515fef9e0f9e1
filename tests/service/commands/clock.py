"""An event loop whose time moves on demand."""

import asyncio
from collections.abc import Callable
from typing import Any


class Timer:
    """A call at a moment."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call
        self.cancelled = False

    def cancel(self) -> None:
        """See `asyncio.TimerHandle`."""
        self.cancelled = True


class Clock:
    """An event loop whose time moves on demand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self.now, self.timers = loop, 0.0, list[Timer]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        """See `asyncio`."""
        return self.now

    def call_at(self, at: float, call: Callable[..., None], *args: Any) -> Timer:
        """See `asyncio`."""
        self.timers.append(Timer(at, lambda: call(*args)))
        return self.timers[-1]

    def call_later(self, seconds: float, call: Callable[..., None], *args: Any) -> Timer:
        """See `asyncio`."""
        return self.call_at(self.now + seconds, call, *args)

    def advance(self, to: float) -> None:
        """Run the timers up to a moment, in order."""
        while due := [timer for timer in self.timers if timer.at <= to and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = first.at
            first.call()
        self.now = to

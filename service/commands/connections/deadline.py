"""A deadline that moves often."""

import asyncio
import math
from collections.abc import Callable

from service.commands.connections.closing import nothing


class Deadline:
    """A deadline that moves with each request.

    Setting a timer costs more than most of a request's handling, so a move only stores the moment. The timer fires at
    least every `tick`, and is then set again.

    Args:
        loop: the event loop.
        tick: seconds; at most the shortest time to a deadline.
        expire: called after the deadline.
    """

    __slots__ = ("_at", "_expire", "_loop", "_tick", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float, expire: Callable[[], None]) -> None:
        self._loop, self._tick, self._expire = loop, tick, expire
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, seconds: float) -> None:
        """Set the deadline, in seconds from now."""
        self._at = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._look)

    def end(self) -> None:
        """Remove the deadline and the timer, and forget the connection: it must be freed without garbage collection."""
        self._at, self._expire = math.inf, nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now, self._timer = self._loop.time(), None
        if now >= self._at:
            self._at = math.inf
            self._expire()
        elif self._at < math.inf:
            self._timer = self._loop.call_at(min(self._at, now + self._tick), self._look)

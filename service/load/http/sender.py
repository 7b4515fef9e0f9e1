"""Senders that measure one kind of request."""

import asyncio
import time
from functools import partial

from service.load.http.client import NO_ANSWER, Client, Done
from service.load.timing.measured import Measured

OK = 200


class Bound:
    """A bound on outstanding requests, over all senders that share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way = 0
        self._idle = asyncio.Event()

    def enter(self) -> bool:
        """Admit one more request if there is room. Return whether it was admitted."""
        room = self._under_way < self._limit
        self._under_way += room
        return room

    def leave(self) -> None:
        """Count one request as finished."""
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until no request is outstanding."""
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()


class MeasuredSender:
    """Sends requests of one kind, and measures those that are due within a window.

    Args:
        client: the client that sends them.
        bound: requests above this bound are counted but not sent.
        begins: start of the window, in seconds of `time.perf_counter`.
        ends: end of the window, in the same seconds.
    """

    def __init__(self, client: Client, bound: Bound, begins: float, ends: float) -> None:
        self._client, self._bound = client, bound
        self._begins, self._ends = begins, ends
        self.measured = Measured(seconds=max(0.0, ends - begins))

    def send(self, due: float, request: bytes, done: Done) -> bool:
        """Send a request that was due at `due`. Return whether the bound had room for it."""
        counts = self._begins <= due < self._ends
        self.measured.due += counts
        if not self._bound.enter():
            self.measured.not_sent += counts
            return False
        self._client.send(request, partial(self._answered, due, done))
        return True

    def _answered(self, due: float, done: Done, status: int, body: bytes) -> None:
        now = time.perf_counter()
        self._bound.leave()
        self.measured.answered += status == OK and self._begins <= now < self._ends
        if self._begins <= due < self._ends:
            self.measured.latency.add(now - due)
            self.measured.no_answer += status == NO_ANSWER
            self.measured.refused += status not in {OK, NO_ANSWER}
        done(status, body)

"""One kind of request on its way to a server, with its measurements."""

import asyncio
import time
from functools import partial

from service.load.http.client import NO_ANSWER, Client, Done
from service.load.timing.measured import Measured

OK = 200


class Bound:
    """How many requests may be under way at once, over all lanes that share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way = 0
        self._idle = asyncio.Event()

    def enter(self) -> bool:
        """Tells whether there is room for one more, which is then under way."""
        room = self._under_way < self._limit
        self._under_way += room
        return room

    def leave(self) -> None:
        """One is under way no more."""
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def drained(self) -> None:
        """Waits until none is under way."""
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()


class MeasuredSender:
    """Sends requests of one kind, and measures those that were due within a window.

    Args:
        client: Sends them.
        bound: Beyond it, a request is counted and not sent.
        begins: Start of the window, in seconds of `time.perf_counter`.
        ends: End of the window.
    """

    def __init__(self, client: Client, bound: Bound, begins: float, ends: float) -> None:
        self._client, self._bound = client, bound
        self._begins, self._ends = begins, ends
        self.measured = Measured(seconds=max(0.0, ends - begins))

    def send(self, due: float, request: bytes, done: Done) -> bool:
        """Sends a request that was due at `due`; tells whether there was room for it."""
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

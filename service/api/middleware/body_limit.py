"""Refuses bodies that are too large or too slow, and answers with a problem (RFC 9457).

FastAPI's size limit would answer in plain text, without the application's error handlers.
"""

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from service.api.middleware.in_flight import Place
from service.api.responses.bodies import client_left, read_whole

_READ_NO_BODY = frozenset({"GET", "DELETE"})
"""Methods whose handlers read no body. If a request has a body nevertheless, the middleware reads it before the handler
runs: a request may be cancelled until its body is complete, so it must have no effect before then. The handlers of
other methods read the body before they act."""


class Pace(NamedTuple):
    """The slowest pace at which a body may arrive. Time counts from the first read that has to wait."""

    max_seconds: float  # for the whole body
    grace_seconds: float  # before the rate applies
    min_rate: float  # bytes per second, on average; 0 for no minimum

    def patience(self, received: int) -> float:
        """Return the seconds, from that first read, within which more than `received` bytes must have arrived."""
        if not self.min_rate:
            return self.max_seconds
        return min(self.max_seconds, self.grace_seconds + received / self.min_rate)


_IMPORT_FACTOR = 20
"""For a file to import, the maximum time and the minimum rate are this many times those for other bodies."""


class BodyLimit:
    """Limits the pace and the size of bodies: `most` bytes or, for a model's file to import, `most_of_import`."""

    def __init__(self, most: int, most_of_import: int, pace: Pace) -> None:
        longest, least = _IMPORT_FACTOR * pace.max_seconds, _IMPORT_FACTOR * pace.min_rate
        self._others = most, pace
        self._imports = most_of_import, pace._replace(max_seconds=longest, min_rate=least)

    async def limit(self, scope: Scope, receive: Receive, place: Place | None) -> Receive:
        """Return `receive` with limits: it raises HTTPException if the body is too large, too slow or cut short.

        A declared length is checked at once. A body that no handler reads is read here, except for health checks, whose
        `place` is None.
        """
        declared = _declared_length(scope)
        if declared == 0:  # nothing to limit
            return receive
        is_import = scope["method"] == "POST" and scope["path"].endswith("/import")
        most, pace = self._imports if is_import else self._others
        if declared is not None and declared > most:
            raise _too_large(most)
        limited = _Body(receive, place, most, pace).receive
        if place is not None and scope["method"] in _READ_NO_BODY:
            await read_whole(limited)
        return limited


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than the limit of {most:,} bytes")


def _declared_length(scope: Scope) -> int | None:
    length = 0
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            return None
    return length


class _Body:
    __slots__ = ("_asked_at", "_complete", "_max_bytes", "_pace", "_place", "_receive", "_received")

    def __init__(self, receive: Receive, place: Place | None, max_bytes: int, pace: Pace) -> None:
        self._receive = receive
        self._place = place
        self._max_bytes = max_bytes
        self._pace = pace
        self._asked_at: float | None = None
        self._received = 0
        self._complete = False

    async def receive(self) -> Message:
        """Return the next message: a part of the body or, after its last part, the client's disconnect."""
        if self._complete:
            return await self._receive()
        waiting = self._receive().__await__()
        try:
            awaited = next(waiting)
        except StopIteration as arrived:  # the usual case: it needs no timer, which would double the cost of the checks
            message: Message = arrived.value
        else:
            message = await self._in_time(_rest(waiting, awaited))
        if message["type"] == "http.disconnect":
            raise client_left()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise _too_large(self._max_bytes)
        if not message.get("more_body", False):
            self._complete = True
            if self._place is not None:
                self._place.keep()
        return message

    async def _in_time(self, rest: Awaitable[Message]) -> Message:
        """Wait for a message while the pace allows. Until the body is complete, a newer request may take the place."""
        if self._place is not None:
            self._place.wait()
        if self._asked_at is None:
            self._asked_at = asyncio.get_running_loop().time()
        patience = self._pace.patience(self._received)
        try:
            async with asyncio.timeout_at(self._asked_at + patience):
                return await rest
        except TimeoutError:
            detail = f"the body was incomplete after {patience:.3g} s: {self._received:,} bytes had arrived"
            raise HTTPException(408, detail, {"Connection": "close"}) from None


@coroutine
def _rest(waiting: Generator[Any, Any, Message], awaited: object) -> Generator[Any, Any, Message]:
    """Continue an awaitable whose first step yielded `awaited`."""
    try:
        yield awaited
        return (yield from waiting)
    finally:
        waiting.close()

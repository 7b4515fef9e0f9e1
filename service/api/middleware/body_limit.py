"""Refuses bodies that are too large or too slow, with a problem.

FastAPI's own size limit answers in plain text, bypassing the application's error handlers.
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
"""Methods whose handlers read no body. The body is awaited nevertheless: a request that loses its place, because its
body is slow, must have had no effect. Other handlers read the body before they act."""


class Pace(NamedTuple):
    """The slowest body that is accepted, timed from the first read."""

    max_seconds: float  # for the whole body
    grace_seconds: float  # before the rate applies
    min_rate: float  # bytes per second, on average; 0 for no minimum

    def patience(self, received: int) -> float:
        """Return the seconds after which more of the body must have arrived, given the bytes received."""
        if not self.min_rate:
            return self.max_seconds
        return min(self.max_seconds, self.grace_seconds + received / self.min_rate)


_IMPORT_FACTOR = 20
"""Factor by which the maximum time and the minimum rate of a file to import exceed those of other bodies."""


class BodyLimit:
    """Checks a declared length immediately, and counts the bytes of every body."""

    def __init__(self, most: int, most_of_import: int, pace: Pace) -> None:
        longest, least = _IMPORT_FACTOR * pace.max_seconds, _IMPORT_FACTOR * pace.min_rate
        self._others = most, pace
        self._imports = most_of_import, pace._replace(max_seconds=longest, min_rate=least)

    async def limit(self, scope: Scope, receive: Receive, place: Place | None) -> Receive:
        """Return a function that receives a body within the limits. Raises HTTPException if it is already too large."""
        declared = _declared_length(scope)
        if declared == 0:  # without a body, a disconnect interrupts nothing
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
    """One arriving body."""

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
        """Return the next message. After the body is complete, wait for the client to disconnect."""
        if self._complete:
            return await self._receive()
        waiting = self._receive().__await__()
        try:
            awaited = next(waiting)
        except StopIteration as arrived:  # usually; a timer would cost as much as the other checks together
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
        """Wait for a message. Until the body is complete, a newer request may take the place of this one."""
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
    """Await the rest of an awaitable after its first step."""
    try:
        yield awaited
        return (yield from waiting)
    finally:
        waiting.close()

"""Refuses bodies that are too large or too slow, with a problem.

FastAPI's own size limit answers in plain text, bypassing the application's error handlers.
"""

import asyncio
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.middleware.in_flight import PLACE, Place
from service.api.responses.bodies import client_left, read_whole
from service.api.responses.problems import answer_to_http, too_large

_READ_NO_BODY = frozenset({"GET", "DELETE"})
"""Methods whose operations read no body. It is awaited all the same: a request that loses its place, because its body
is slow, must have had no effect. Other operations read theirs before they begin."""


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


class MostBytes(NamedTuple):
    """Maximum bytes of a body."""

    of_request: int
    of_import: int  # of the file of a model

    def of(self, scope: Scope) -> int:
        """Return the maximum bytes of the body of a request."""
        return self.of_import if _is_import(scope) else self.of_request


def _is_import(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith("/import"))


_IMPORT_FACTOR = 20
"""Factor by which the maximum time and the minimum rate of a file to import exceed those of other bodies."""


class BodyLimit:
    """Middleware that checks a declared length immediately, and counts the bytes of every body.

    Args:
        app: answers the requests.
        most: maximum bytes of a body.
        pace: the slowest body that is accepted.
    """

    def __init__(self, app: ASGIApp, most: MostBytes, pace: Pace) -> None:
        self._app = app
        self._most = most
        self._pace = pace
        longest, least = _IMPORT_FACTOR * pace.max_seconds, _IMPORT_FACTOR * pace.min_rate
        self._import_pace = pace._replace(max_seconds=longest, min_rate=least)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `ASGIApp`."""
        declared = _declared_length(scope) if scope["type"] == "http" else 0
        if declared == 0:  # without a body, a disconnect interrupts nothing
            return await self._app(scope, receive, send)
        most = self._most.of(scope)
        if declared is not None and declared > most:
            return await too_large(most)(scope, receive, send)
        pace = self._import_pace if _is_import(scope) else self._pace
        place = scope.get(PLACE)
        receive = _Body(receive, place, most, pace).receive
        if place is not None and scope["method"] in _READ_NO_BODY:
            try:
                await read_whole(receive)
            except HTTPException as error:
                return await answer_to_http(error)(scope, receive, send)
        return await self._app(scope, receive, send)


def _declared_length(scope: Scope) -> int | None:
    """Return the declared length of a body, 0 without a body, or None for a body in chunks."""
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
        message = await self._in_time()
        if message["type"] == "http.disconnect":
            raise client_left()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise HTTPException(413, f"the body is larger than the limit of {self._max_bytes:,} bytes")
        if not message.get("more_body", False):
            self._complete = True
            if self._place is not None:
                self._place.keep()
        return message

    async def _in_time(self) -> Message:
        if self._place is not None:
            self._place.wait()
        if self._asked_at is None:
            self._asked_at = asyncio.get_running_loop().time()
        patience = self._pace.patience(self._received)
        try:
            async with asyncio.timeout_at(self._asked_at + patience):
                return await self._receive()
        except TimeoutError:
            detail = f"the body was incomplete after {patience:.3g} s: {self._received:,} bytes had arrived"
            raise HTTPException(408, detail, {"Connection": "close"}) from None

"""Refuses bodies that are too large or too slow, with a problem.

FastAPI's own size limit answers in plain text, bypassing the application's error handlers.
"""

import asyncio
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.responses.problems import too_large

CLIENT_GONE = 499
"""The status in metrics and logs if the client disconnects before its body is complete."""


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
        imports = scope["method"] == "POST" and scope["path"].endswith("/import")
        return self.of_import if imports else self.of_request


_IMPORT_PATIENCE = 20
"""Factor by which the maximum time of a file to import exceeds that of other bodies. The minimum rate is the same."""


class BodyLimit:
    """ASGI middleware. It checks a declared length immediately, and counts the bytes of every body.

    Args:
        app: the next application.
        most: maximum bytes of a body.
        pace: the slowest body that is accepted.
    """

    def __init__(self, app: ASGIApp, most: MostBytes, pace: Pace) -> None:
        self._app = app
        self._most = most
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless its declared length is too large."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        most, pace = self._most.of(scope), self._pace
        if most != self._most.of_request:
            pace = pace._replace(max_seconds=_IMPORT_PATIENCE * pace.max_seconds)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is not None and int(declared) > most:
            return await too_large(most)(scope, receive, send)
        if not has_body(scope):  # a disconnect interrupts nothing
            return await self._app(scope, receive, send)
        return await self._app(scope, _Body(receive, most, pace).receive, send)


def has_body(scope: Scope) -> bool:
    """Check whether the headers of a request declare a body."""
    return any(
        (name == b"content-length" and value != b"0") or name == b"transfer-encoding"
        for name, value in scope["headers"]
    )


class _Body:
    """One arriving body."""

    def __init__(self, receive: Receive, max_bytes: int, pace: Pace) -> None:
        self._receive = receive
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
            raise HTTPException(CLIENT_GONE, "the client disconnected before the body was complete")
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise HTTPException(413, f"the body is larger than the limit of {self._max_bytes:,} bytes")
        self._complete = not message.get("more_body", False)
        return message

    async def _in_time(self) -> Message:
        if self._asked_at is None:
            self._asked_at = asyncio.get_running_loop().time()
        patience = self._pace.patience(self._received)
        try:
            async with asyncio.timeout_at(self._asked_at + patience):
                return await self._receive()
        except TimeoutError:
            detail = f"the body was incomplete after {patience:.3g} s: {self._received:,} bytes had arrived"
            raise HTTPException(408, detail, {"Connection": "close"}) from None

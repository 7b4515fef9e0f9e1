"""Refuses bodies that are too large or too slow, with a problem like every other error.

FastAPI's own limit of size answers in plain text, outside of the application's error handlers.
"""

import asyncio
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.responses.problems import too_large

CLIENT_GONE = 499
"""The status that counts and logs have for a request whose client hung up before its body was whole."""


class Pace(NamedTuple):
    """How slowly a body may arrive, from the moment it is asked for."""

    max_seconds: float  # for all of it
    grace_seconds: float  # before its rate matters
    min_rate: float  # bytes a second, on average; 0 for any

    def patience(self, received: int) -> float:
        """Return the seconds after which more of a body must have arrived, given the bytes so far."""
        if not self.min_rate:
            return self.max_seconds
        return min(self.max_seconds, self.grace_seconds + received / self.min_rate)


class BodyLimit:
    """ASGI middleware. A declared length is judged at once, an undeclared one while the body is read.

    Args:
        app: what the request is passed on to.
        max_bytes: the largest body.
        pace: the slowest body.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, pace: Pace) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, unless it is known to be too large."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is not None and int(declared) > self._max_bytes:
            return await too_large(self._max_bytes)(scope, receive, send)
        return await self._app(scope, _Body(receive, self._max_bytes, self._pace).receive, send)


class _Body:
    """One body on its way."""

    def __init__(self, receive: Receive, max_bytes: int, pace: Pace) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._pace = pace
        self._asked_at: float | None = None
        self._received = 0
        self._complete = False

    async def receive(self) -> Message:
        """Bring the next message; once the body is complete, that is the end of the connection."""
        if self._complete:
            return await self._receive()
        message = await self._in_time()
        if message["type"] == "http.disconnect":
            raise HTTPException(CLIENT_GONE, "the client disconnected before the body was complete")
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise HTTPException(413, f"the body is larger than {self._max_bytes:,} bytes, the most allowed")
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

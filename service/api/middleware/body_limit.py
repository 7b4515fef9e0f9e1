"""Refuses bodies that are too large or too slow, with a problem.

FastAPI's own size limit answers in plain text, bypassing the application's error handlers.
"""

import asyncio
from typing import NamedTuple

from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from service.api.middleware.exchange import Exchange
from service.api.middleware.in_flight import Arrival
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
        return self.of_import if _is_import(scope) else self.of_request


def _is_import(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith("/import"))


_IMPORT_FACTOR = 20
"""Factor by which the maximum time and the minimum rate of a file to import exceed those of other bodies."""


class BodyLimit:
    """Checks a declared length immediately, and counts the bytes of every body.

    Args:
        most: maximum bytes of a body.
        pace: the slowest body that is accepted.
    """

    def __init__(self, most: MostBytes, pace: Pace) -> None:
        self._most = most
        self._pace = pace
        longest, least = _IMPORT_FACTOR * pace.max_seconds, _IMPORT_FACTOR * pace.min_rate
        self._import_pace = pace._replace(max_seconds=longest, min_rate=least)

    def refusal(self, exchange: Exchange) -> Response | None:
        """Return the refusal of a request if the declared length of its body is too large."""
        declared, most = int(exchange.headers.get(b"content-length", b"0")), self._most.of(exchange.scope)
        return too_large(most) if declared > most else None

    def limit(self, exchange: Exchange) -> None:
        """Limit the size and the time of a body while it arrives."""
        if exchange.has_body:  # without a body, a disconnect interrupts nothing
            pace = self._import_pace if _is_import(exchange.scope) else self._pace
            exchange.receive = _Body(exchange.receive, exchange.arrival, self._most.of(exchange.scope), pace).receive


async def read_whole(exchange: Exchange) -> bytes:
    """Return the whole body of a request.

    Raises:
        HTTPException: if the body is too large or too slow, or the client disconnects.
    """
    parts, more = list[bytes](), True
    while more:
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise _client_left()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _client_left() -> HTTPException:
    return HTTPException(CLIENT_GONE, "the client disconnected before the body was complete")


class _Body:
    """One arriving body."""

    def __init__(self, receive: Receive, arrival: Arrival | None, max_bytes: int, pace: Pace) -> None:
        self._receive = receive
        self._arrival = arrival
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
            raise _client_left()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise HTTPException(413, f"the body is larger than the limit of {self._max_bytes:,} bytes")
        if not message.get("more_body", False):
            self._complete = True
            if self._arrival is not None:
                self._arrival.end()
        return message

    async def _in_time(self) -> Message:
        if self._arrival is None:  # the body has arrived, and a timer would cost as much as the rest
            return await self._receive()
        if self._asked_at is None:
            self._asked_at = asyncio.get_running_loop().time()
        patience = self._pace.patience(self._received)
        try:
            async with asyncio.timeout_at(self._asked_at + patience):
                return await self._receive()
        except TimeoutError:
            detail = f"the body was incomplete after {patience:.3g} s: {self._received:,} bytes had arrived"
            raise HTTPException(408, detail, {"Connection": "close"}) from None

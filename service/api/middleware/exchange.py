"""One request and its response, as the gate sees them."""

from collections.abc import Iterable
from typing import Protocol

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from service.api.middleware.in_flight import Arrival
from service.api.responses.bodies import is_long, long_response
from service.api.responses.headers import HEADER_LINES, complete
from service.request_context import RequestContext

ONE_WRITE = "wager.one_write"
"""The extension of the ASGI scope with a `OneWrite`. A server without it gets the response in two messages."""

Header = tuple[bytes, bytes]

_JSON = (b"content-type", b"application/json")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + HEADER_LINES


class OneWrite(Protocol):
    """What the server's protocol offers beyond ASGI."""

    headers: dict[bytes, bytes]
    """The last value of each header of the request."""

    @property
    def body_has_arrived(self) -> bool:
        """Whether the whole body of the request has arrived."""
        ...

    def write(self, head: bytes, body: bytes) -> bool:
        """Write a whole response at once; return False, and write nothing, if that is not possible now.

        Args:
            head: the status line and the headers, without the empty line.
            body: the body; its length is one of the headers.
        """
        ...


class Exchange:
    """One request and its response.

    Args:
        scope: the request, without its body.
        receive: returns the next part of the body.
        send: sends the next part of the response.
        notes: the notes on the request.
        started: seconds of a monotonic clock.

    Attributes:
        headers: the last value of each header of the request.
        has_length: whether the headers declare the length of the body, or that there is none.
        has_body: whether the headers declare a body.
        receive: as given, or with the limits of the body.
        status: status of the response; 0 before it begins.
        more_headers: further headers of the response, set before it begins.
        arrival: the body that is still arriving, if any.
        one_write: what the server's protocol offers; None if it offers nothing, or CORS wraps the response.
    """

    __slots__ = (
        "_send", "_wrapped", "arrival", "has_body", "has_length", "headers", "more_headers", "notes", "one_write",
        "receive", "scope", "started", "status",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send, notes: RequestContext, started: float) -> None:
        self.scope, self.receive, self.notes, self.started = scope, receive, notes, started
        extensions = scope.get("extensions")
        self.one_write: OneWrite | None = None if extensions is None else extensions.get(ONE_WRITE)
        self.headers = dict(scope["headers"]) if self.one_write is None else self.one_write.headers
        self.has_length = b"transfer-encoding" not in self.headers
        self.has_body = self.headers.get(b"content-length", b"0") != b"0" or not self.has_length
        self.status = 0
        self.more_headers: list[Header] = []
        self.arrival: Arrival | None = None
        self._send = send
        self._wrapped: Send | None = None

    @property
    def repeats_headers(self) -> bool:
        """Whether a header of the request occurs more than once."""
        return len(self.headers) < len(self.scope["headers"])

    @property
    def body_has_arrived(self) -> bool:
        """Whether the whole body, if any, has certainly arrived."""
        return not self.has_body or (self.one_write is not None and self.one_write.body_has_arrived)

    @property
    def send(self) -> Send:
        """Sends a response, with its headers completed and its status noted; CORS may have wrapped it."""
        return self._wrapped or self._complete  # storing the method would make a cycle

    def wrap(self, send: Send) -> None:
        """Send the response through a function that calls `send` in turn."""
        self._wrapped, self.one_write = send, None

    async def respond(self, response: Response) -> None:
        """Send a response."""
        await response(self.scope, self.receive, self.send)

    async def respond_json(self, body: bytes) -> None:
        """Send a response with status 200 and this JSON, in one write if possible."""
        if is_long(body):
            return await self.respond(long_response(body))
        length = b"%d" % len(body)
        if self.one_write is not None and self.one_write.write(self._head(length), body):
            self.status = 200
            return None
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length), _JSON]}
        await self.send(start)
        return await self.send({"type": "http.response.body", "body": body})

    def _head(self, length: bytes) -> bytes:
        more = b"".join([b"%b: %b\r\n" % header for header in self.more_headers]) if self.more_headers else b""
        return b"%b%bcontent-length: %b\r\nx-request-id: %b\r\n" % (_HEAD, more, length, self.notes.request_id.encode())

    async def _complete(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given: Iterable[Header] = message.get("headers", ())
            own = (*self.more_headers, (b"x-request-id", self.notes.request_id.encode()))
            message = {**message, "headers": complete([*given, *own])}
        await self._send(message)

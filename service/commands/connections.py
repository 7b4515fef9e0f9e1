"""Limits that uvicorn's HTTP protocol lacks, for a port that clients reach directly.

Uvicorn closes connections that are idle after a response, and `body_limit` limits bodies that the application reads.
This protocol limits the rest: the time and the size of a head, pipelined requests, and slow readers. SECURITY.md lists
what a reverse proxy must do.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_SILENT_BYTES = 65_536  # maximum bytes of a head, and of what separates two parts of a body
_PIECE = 8192  # bytes parsed at once, so that few pipelined requests are queued
# The time between two checks of a reader, in head timeouts. In less time, even an acceptable reader may seem to have
# stopped: the buffers on the way to the reader empty in steps, and one step may take a minute.
_CHECKED_AFTER = 16
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Deadlines(NamedTuple):
    """Limits on the time for which a client may block a connection."""

    # Seconds within which a head must be complete. They are counted from the start of the connection, from the head's
    # first byte, or from a response that was sent before its request had arrived completely.
    head: float
    min_rate: float  # bytes per second that a client must read on average; 0 for no minimum


class LimitedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol of one connection, with the limits that the module describes."""

    def __init__(self, *, deadlines: Deadlines, **settings: Any) -> None:
        super().__init__(**settings)
        self._deadlines = deadlines
        self._begun = self._arrived = self._answered = 0  # numbers of complete heads, requests and responses
        self._silent = 0  # bytes since the last head or part of a body
        self._held: deque[bytes] = deque()  # received data that is parsed after the next response
        self._ending: Callable[[], None] | None = None  # refuses invalid data; called after all earlier responses
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joined: Any = _JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.clear()
        self._head_timer = _cancel(self._head_timer)
        self._reader_timer = _cancel(self._reader_timer)
        super().connection_lost(exc)

    # --- what the client sends

    def data_received(self, data: bytes) -> None:
        if self._ending is not None:
            return
        if len(data) <= _PIECE and not self._held and self._arrived <= self._answered:
            self._parse(data)
            return
        self._held.extend([data[start : start + _PIECE] for start in range(0, len(data), _PIECE)])
        self._parse_held()

    def _parse_held(self) -> None:
        while self._held and self._arrived <= self._answered:
            self._parse(self._held.popleft())
        if self._held:
            self.flow.pause_reading()  # uvicorn resumes reading after each response

    def _parse(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._silent += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self.transport.is_closing():
            return
        if self._silent > MOST_SILENT_BYTES:
            self._end_after_answers(partial(self._close, _TOO_LONG))
        elif self._begun == self._answered:
            self._expect_head()

    def _feed(self, data: bytes) -> None:
        """Feed the parser, and ignore upgrades, as servers may (RFC 9110, section 7.8).

        The parser stops after the head of a request to upgrade. A new parser then gets the same head without `Upgrade`,
        and the body. CONNECT is refused.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as end:
                method, version = self.parser.get_method(), self.parser.get_http_version().encode()
                if method == b"CONNECT":
                    raise HttpParserError from end
                lines = [b": ".join(each) for each in self.headers if each[0] != b"upgrade"]
                head = b"\r\n".join([b"%b %b HTTP/%b" % (method, self.url, version), *lines, b"\r\n"])
                data = head + data[end.args[0] :]
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, after the responses to earlier ones."""
        self._end_after_answers(partial(super().send_400_response, msg))

    def _end_after_answers(self, end: Callable[[], None]) -> None:
        if self._arrived <= self._answered:
            end()
            return
        self._ending = end
        self._held.clear()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._deadlines.head, self._expire)

    def on_headers_complete(self) -> None:
        """Count a request whose head has arrived."""
        if self.parser.should_upgrade():
            return
        self._silent = 0
        self._begun += 1
        self._head_timer = _cancel(self._head_timer)
        super().on_headers_complete()
        self.headers = []  # trailers go to this new list, so that none counts as a header (RFC 9110, section 6.5.1)

    def on_body(self, body: bytes) -> None:
        """Reset the count of silent bytes: the body continues."""
        self._silent = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count a request that has arrived completely."""
        if self.parser.should_upgrade():
            return
        self._silent = 0
        self._arrived += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Count a response. Then refuse invalid data that has arrived, or go on reading."""
        self._answered += 1
        super().on_response_complete()
        if self._ending is not None:
            if self._arrived == self._answered and not self.transport.is_closing():
                self._ending()
        elif self._held:
            self._parse_held()
        elif self._arrived < self._answered:  # the rest of the body must arrive within the head timeout
            self._expect_head()

    def _expire(self) -> None:
        self._close(_TOO_LATE if self._silent else b"")

    def _close(self, answer: bytes) -> None:
        self._held.clear()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    # --- the reader of a response

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._deadlines.min_rate:
            seconds = _CHECKED_AFTER * self._deadlines.head
            self._reader_timer = self.loop.call_later(seconds, self._check_reader, _unread(self.transport), seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader_timer = _cancel(self._reader_timer)

    def _check_reader(self, before: int, seconds: float) -> None:
        """Reset the connection of a reader that was too slow, which frees the system's send buffer at once."""
        unread = _unread(self.transport)
        if before - unread >= self._deadlines.min_rate * seconds:
            self._reader_timer = self.loop.call_later(seconds, self._check_reader, unread, seconds)
            return
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class _JoinedWrites:
    """A transport that writes the head of a response together with its body if the body follows immediately."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""
        self.is_closing, self.get_extra_info = transport.is_closing, transport.get_extra_info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self.is_closing():
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self.is_closing():
            self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None


def _unread(transport: asyncio.Transport) -> int:
    """Return the number of written bytes that the client has not acknowledged."""
    waiting = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    return transport.get_write_buffer_size() + int(struct.unpack("i", waiting)[0])

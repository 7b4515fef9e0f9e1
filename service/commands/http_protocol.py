"""Uvicorn's HTTP protocol with a deadline for every stage in which a client may block a connection.

Uvicorn limits only idle time between requests, and `body_limit` only bodies that the application reads. This protocol
adds limits on the head of a request, on the rest of a body after an early response, and on slow readers.
"""

import asyncio
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.middleware.exchange import ONE_WRITE

_MOST_HEAD_BYTES = 65_536
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Deadlines(NamedTuple):
    """Limits on the time for which a client may block a connection."""

    head: float  # seconds from the connection, or the first byte, to the end of the head; interval of checks of readers
    unread_body: float  # seconds from an early response to the end of the body
    min_rate: float  # minimum bytes a second of a reader


class _OneWrite:
    """Writes a response to one request in one piece. Uvicorn writes the head and the body separately."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def body_has_arrived(self) -> bool:
        """See `OneWrite`."""
        return not self._cycle.more_body

    def write(self, head: bytes, body: bytes) -> bool:
        """See `OneWrite`."""
        cycle = self._cycle
        if cycle.disconnected or cycle.response_started or cycle.flow.write_paused or cycle.access_log:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        cycle.transport.write(b"%b%b\r\n%b" % (head, b"".join(lines), body))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True


class TimedProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        deadlines: the limits.
        settings: arguments of uvicorn's protocol.
    """

    def __init__(self, *, deadlines: Deadlines, **settings: Any) -> None:
        super().__init__(**settings)
        self._deadlines = deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0  # without those of its first packet
        self._in_body = False

    # --- the head, and the rest of a body after an early response

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._arm(self._deadlines.head)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._end(_TOO_LONG)
        if self._timer is None and not self._in_body and (self.cycle is None or self.cycle.response_complete):
            self._arm(self.timeout_keep_alive)  # uvicorn cancelled its own timer for these bytes

    def on_message_begin(self) -> None:
        """See `httptools`."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self.cycle is not None:
            self._arm(self._deadlines.head)

    def on_headers_complete(self) -> None:
        """See `httptools`."""
        self._in_head, self._in_body = False, True
        self._disarm()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.scope is self.scope:  # not so for a WebSocket
            extensions: Any = {ONE_WRITE: _OneWrite(self.cycle)}
            self.scope["extensions"] = extensions

    def on_message_complete(self) -> None:
        """See `httptools`."""
        self._in_body = False
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See `uvicorn`."""
        super().on_response_complete()
        if self._in_body:
            self._arm(self._deadlines.unread_body)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.cycle is not None and not self.cycle.response_complete:  # a pipelined head, during another request
            self._arm(self._deadlines.head)
        else:
            self._end(_TOO_LATE if self._in_head else b"")

    def _end(self, response: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()

    # --- the reader of a response

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._look_at_reader(None)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        self._leave_reader()

    def _look_at_reader(self, unread_before: int | None) -> None:
        """Abort the connection if its reader took less than `min_rate` since the last check."""
        unread = self.transport.get_write_buffer_size()
        if unread_before is not None and unread_before - unread < self._deadlines.min_rate * self._deadlines.head:
            self.transport.abort()
            return
        self._reader_timer = self.loop.call_later(self._deadlines.head, self._look_at_reader, unread)

    def _leave_reader(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._disarm()
        super().connection_lost(exc)
        self._leave_reader()

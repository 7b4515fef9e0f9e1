"""Uvicorn's HTTP protocol with a deadline for every stage in which a client may block a connection.

Uvicorn limits only idle time between requests, and `body_limit` only bodies that the application reads. This protocol
adds limits on the head of a request, on the rest of a body after an early response, and on slow readers.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.middleware.exchange import ONE_WRITE

_MOST_HEAD_BYTES = 65_536
_MOST_HEADERS = 10_000
"""Maximum headers of a request, with the trailers of its body."""

_MOST_PIPELINED = 256
"""Maximum requests of a connection that wait for the response to an earlier one."""

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


def _nothing() -> None:
    """Do nothing."""


class _Watch:
    """A deadline that moves with each request.

    Setting a timer costs more than most of a request's handling, so a move only stores the moment. The timer fires at
    least every `tick`, and is then set again.

    Args:
        loop: the event loop.
        tick: seconds; at most the shortest time to a deadline.
        expire: called after the deadline.
    """

    __slots__ = ("_at", "_expire", "_loop", "_tick", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float, expire: Callable[[], None]) -> None:
        self._loop, self._tick, self._expire = loop, tick, expire
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, seconds: float) -> None:
        """Set the deadline, in seconds from now."""
        self._at = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._look)

    def end(self) -> None:
        """Remove the deadline and the timer, and forget the connection: it must be freed without garbage collection."""
        self._at, self._expire = math.inf, _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now, self._timer = self._loop.time(), None
        if now >= self._at:
            self._at = math.inf
            self._expire()
        elif self._at < math.inf:
            self._timer = self._loop.call_at(min(self._at, now + self._tick), self._look)


class TimedProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        deadlines: the limits.
        settings: arguments of uvicorn's protocol.
    """

    def __init__(self, *, deadlines: Deadlines, **settings: Any) -> None:
        super().__init__(**settings)
        self._deadlines = deadlines
        tick = min(deadlines.head, deadlines.unread_body, self.timeout_keep_alive)
        self._watch = _Watch(self.loop, tick, self._expire)
        self._reader_timer: asyncio.TimerHandle | None = None
        self._split_head: int | None = None  # bytes of an incomplete head, without those of its first packet
        self._has_unread_body = False  # the response was complete before the body

    # --- the head, the rest of a body after an early response, and the time between two requests

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch.expect(self._deadlines.head)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self._in_head:
            self._note_part_of_head(len(data))
        if self.headers is not None and len(self.headers) > _MOST_HEADERS:  # trailers count too
            self._end(b"")

    def on_headers_complete(self) -> None:
        """See `httptools`."""
        self._split_head = None
        super().on_headers_complete()
        if len(self.pipeline) > _MOST_PIPELINED:
            raise ValueError("too many pipelined requests")  # ends the parser: uvicorn answers 400
        if not self._in_head:  # as it is for a WebSocket
            extensions: Any = {ONE_WRITE: _OneWrite(self.cycle)}
            self.scope["extensions"] = extensions

    def on_message_complete(self) -> None:
        """See `httptools`."""
        super().on_message_complete()
        if self._has_unread_body:
            self._has_unread_body = False
            self._watch.expect(self.timeout_keep_alive)

    def on_response_complete(self) -> None:
        """Start the next request, or expect one. Uvicorn's method would set a timer for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self.flow.resume_reading()
        self._has_unread_body = self.cycle.more_body
        if self._split_head is None:
            self._watch.expect(self._deadlines.unread_body if self._has_unread_body else self.timeout_keep_alive)

    @property
    def _in_head(self) -> bool:
        """Whether the head of a request has begun and is incomplete."""
        scope, cycle = self.scope, self.cycle
        return scope is not None and (cycle is None or cycle.scope is not scope)

    def _note_part_of_head(self, size: int) -> None:
        """Limit the time and the size of a head that does not arrive at once."""
        if self._split_head is None:
            self._split_head = 0
            if self.cycle is not None:
                self._watch.expect(self._deadlines.head)
        else:
            self._split_head += size
            if self._split_head > _MOST_HEAD_BYTES:
                self._end(_TOO_LONG)

    def _expire(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._end(_TOO_LATE if self._in_head else b"")
        elif self._split_head is not None:  # a pipelined head, during another request
            self._watch.expect(self._deadlines.head)

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
        self._watch.end()
        self.pipeline.clear()
        super().connection_lost(exc)
        self._leave_reader()

"""Uvicorn's HTTP protocol with a deadline for every stage in which a client may block a connection.

Uvicorn limits only idle time between requests, and `body_limit` only bodies that the application reads. This protocol
adds limits on the head of a request, on the rest of a body after an early response, and on slow readers. It answers
requests of clients that have closed their direction of the connection like all others.
"""

import asyncio
from collections import deque
from typing import Any, NamedTuple

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.api.middleware.exchange import ONE_WRITE
from service.commands.connections.close_delimited import CloseDelimitedCycle
from service.commands.connections.closing import ClosingTransport, nothing
from service.commands.connections.deadline import Deadline
from service.commands.connections.one_write import CycleWrite
from service.commands.connections.parsing import LEAST_OF_LONG_HEAD, MOST_HEAD_BYTES, TRAILERS, ParsingProtocol
from service.commands.connections.reader import ReaderWatch, unread

_PIECE = 8192
"""Bytes that are parsed at once. More than one request of them waits only for the answers to others of them."""

_MOST_TRAILERS = MOST_HEAD_BYTES - 2 * _PIECE
"""Maximum bytes of trailers, or of extensions of chunks, between the pieces in which they begin and end."""

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Deadlines(NamedTuple):
    """Limits on the time for which a client may block a connection."""

    head: float  # seconds from the connection, or the first byte, to the end of the head; interval of checks of readers
    unread_body: float  # seconds from an early response to the end of the body
    min_rate: float  # minimum bytes a second of a reader, on average over some checks


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Tell the application that the client of a request has left."""
    if not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()


class TimedProtocol(ParsingProtocol):
    """One connection.

    Args:
        deadlines: the limits.
        settings: arguments of uvicorn's protocol.
    """

    transport: ClosingTransport  # type: ignore[assignment]

    def __init__(self, *, deadlines: Deadlines, **settings: Any) -> None:
        super().__init__(**settings)
        self._deadlines = deadlines
        tick = min(deadlines.head, deadlines.unread_body, self.timeout_keep_alive)
        self._deadline = Deadline(self.loop, tick, self._expire)
        self._in_parts = False  # the head arrives in several packets
        self._silent_bytes = 0  # of packets without the end of a head and without a part of a body
        self._most_of_head = 0  # bytes of the packets of a head, with what is before it in its first packet
        self._has_unread_body = False  # the response was complete before the body
        self._has_eof = self._ignores_input = self._is_stopping = False
        self._held: deque[bytes] = deque()  # pieces that are parsed after requests in the pipeline have begun
        self._running: RequestResponseCycle | None = None  # the request before those in the pipeline

    # --- what the client sends

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        closing: Any = ClosingTransport(transport, self._close)
        super().connection_made(closing)
        self._reader = ReaderWatch(self.loop, closing, self._deadlines.head, self._deadlines.min_rate)
        self._deadline.expect(self._deadlines.head)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.transport.is_closing() or self._ignores_input:
            if self.transport.lingers and not self.transport.drop(data):
                self._finish()
            return
        if len(data) > _PIECE or self._held:
            self._held.extend([data[start : start + _PIECE] for start in range(0, len(data), _PIECE)])
            self._read_held()
            return
        self._silent_bytes += len(data)
        self._most_of_head += len(data)
        self._parse(data)
        if not (in_head := self._in_head):
            self._most_of_head = 0
        elif not self._silent_bytes:  # it begins in this packet, after something else
            self._most_of_head = len(data)
        if in_head and not self._in_parts:
            self._in_parts = True
            if self.cycle is not None:
                self._deadline.expect(self._deadlines.head)
        if self._silent_bytes > _MOST_TRAILERS and (not in_head or self._silent_bytes > MOST_HEAD_BYTES):
            self._refuse(_TOO_LONG)

    def _read_held(self) -> None:
        """Parse pieces until a request must wait for the answer to another one."""
        pieces, self._held = self._held, deque()
        while pieces and not (self.pipeline or self._ignores_input or self.transport.is_closing()):
            self.data_received(pieces.popleft())
        if not self._ignores_input:
            self._held = pieces

    def _refuse(self, response: bytes) -> None:
        """Answer input that is no request, and read no further. Earlier requests are answered first, and nothing else.

        Args:
            response: empty for uvicorn's, with status 400.
        """
        if self.transport.is_closing():
            return
        self._ignores_input = True
        self._held.clear()
        if self._in_body:
            self._abandon_last()
        if self._owes_answer:
            return  # `on_response_complete` closes
        if self.cycle is not None and self.cycle.response_started and not self._in_head:
            self.transport.close()
        elif response:
            self.transport.write(response)
            self.transport.close()
        else:
            self.send_400_response("Invalid HTTP request received.")

    def _abandon_last(self) -> None:
        """Disconnect the last request, whose body will never be complete. It may not have begun."""
        _disconnect(self.cycle)
        if self.pipeline:
            self.pipeline.popleft()
            self.cycle.on_response = nothing
            self.cycle = self.pipeline[0][0] if self.pipeline else self._running  # type: ignore[assignment]

    def on_headers_complete(self) -> None:
        """See `httptools`."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("no proxy")  # ends the parser
            return
        if self._most_of_head > LEAST_OF_LONG_HEAD and self._is_too_long:
            self._refusal = _TOO_LONG
            raise ValueError("too long")
        self._check_target()
        headers = self._unambiguous_headers()
        self._in_parts, self._silent_bytes = False, 0
        before = self.cycle
        super().on_headers_complete()
        self.headers = TRAILERS
        if not self.cycle.keep_alive and self.scope["http_version"] == "1.0":
            self.cycle.__class__ = CloseDelimitedCycle  # its task has not begun
            self.cycle.waiting_for_100_continue = False
        if self.pipeline:
            self._let_wait(before)
        extensions: Any = {ONE_WRITE: CycleWrite(self.cycle, headers)}
        self.scope["extensions"] = extensions

    def _let_wait(self, before: RequestResponseCycle) -> None:
        """Read no further while requests wait: uvicorn's cycle would, as soon as the application reads a body."""
        if len(self.pipeline) == 1:
            self._running = before
        self.flow.resume_reading = nothing  # type: ignore[method-assign]

    def on_body(self, body: bytes) -> None:
        """See `httptools`."""
        self._silent_bytes = 0
        cycle = self.cycle  # the rest is uvicorn's method, without upgrades
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        """See `httptools`."""
        if self.parser.should_upgrade():
            return
        cycle = self.cycle  # like uvicorn's method, without upgrades
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        if self._has_unread_body:
            self._has_unread_body = False
            self._deadline.expect(self.timeout_keep_alive)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Close the connection, after the answers to all complete requests. See `asyncio.Protocol`."""
        self._has_eof = True
        with_tls = self.scheme == "https"  # which closes both directions at once
        if self.transport.is_closing():
            self._finish()
        elif with_tls or not self._owes_answer:
            self.transport.close()
        return not with_tls

    @property
    def _owes_answer(self) -> bool:
        """Whether there is a complete request without an answer."""
        cycle = self.cycle
        return bool(self.pipeline) or (cycle is not None and not (cycle.response_complete or cycle.more_body))

    # --- deadlines of what the client sends

    def on_response_complete(self) -> None:
        """Start the next request, or expect one. Uvicorn's method would set a timer for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._begin_next()
            return
        if self._has_eof or self._ignores_input:
            self.transport.close()
            return
        self.flow.resume_reading()
        self._has_unread_body = self.cycle.more_body
        if not self._in_parts:
            self._deadline.expect(self._deadlines.unread_body if self._has_unread_body else self.timeout_keep_alive)

    def _begin_next(self) -> None:
        self._running, app = self.pipeline.pop()
        self._start_asgi_task(self._running, app)
        if not self.pipeline:
            del self.flow.resume_reading
            self._read_held()

    def _expire(self) -> None:
        if self.transport.is_closing():
            if self._reader.until_read is None:
                self._finish()
        elif self.cycle is None or self.cycle.response_complete:
            if self._in_head:
                self.transport.write(_TOO_LATE)
            if self._in_head or self._in_body:
                self._finish()
            else:
                self.transport.close()
        elif self._in_parts:  # a pipelined head, during another request
            self._deadline.expect(self._deadlines.head)

    # --- the end

    def shutdown(self) -> None:
        """Close the connection, after the current response. See uvicorn."""
        self._is_stopping = True
        if self.transport.lingers and self._reader.until_read is None:
            self._finish()
        super().shutdown()

    def _close(self) -> None:
        """Close the transport; first let a client that may still send read the last response."""
        if self._has_eof:
            self._finish()
        elif (self._ignores_input or self._in_head or self._in_body) and not self._is_stopping:
            self.transport.linger()
            self._deadline.expect(self._deadlines.unread_body)
        elif unread(self.transport) and self.scheme != "https":
            self.transport.linger()
            self._reader.begin_until_read(self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        """Close the transport, at the latest when its reader stops reading."""
        self.transport.end()
        self._reader.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._deadline.end()
        if self._running is not None:
            _disconnect(self._running)
        for waiting, _ in self.pipeline:
            waiting.on_response = nothing
        self.pipeline.clear()
        self._held.clear()
        super().connection_lost(exc)
        self.transport.forget()
        self._reader.end()

    # --- the reader of a response

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._reader.begin()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._reader.end()

"""Uvicorn's HTTP protocol with a deadline for every stage in which a client may block a connection.

Uvicorn limits only idle time between requests, and `body_limit` only bodies that the application reads. This protocol
adds limits on the head of a request, on the rest of a body after an early response, and on slow readers. It answers
requests with `Upgrade`, and those of clients that have closed their direction of the connection, like all others.
"""

import asyncio
from typing import Any, NamedTuple

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.middleware.exchange import ONE_WRITE
from service.commands.closing import ClosingTransport
from service.commands.deadline import Deadline
from service.commands.one_write import CycleWrite
from service.commands.reader import ReaderWatch

_MOST_HEAD_BYTES = 65_536
"""Maximum bytes of a head, and of everything else between two parts of a body."""

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
    min_rate: float  # minimum bytes a second of a reader, on average over some checks


class _Trailers(list[tuple[bytes, bytes]]):
    """The trailers of a body. They are dropped: none of them may count as a header (RFC 9110, section 6.5.1)."""

    def append(self, trailer: tuple[bytes, bytes]) -> None:
        """Drop a trailer.

        Raises:
            ValueError: if it changes how the parser reads what follows. This ends the parser.
        """
        if trailer[0] in (b"connection", b"proxy-connection"):
            raise ValueError("not as a trailer")


_TRAILERS = _Trailers()


class TimedProtocol(HttpToolsProtocol):
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
        self._refusal = b""  # in the place of uvicorn's status 400

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
        if self._silent_bytes > _MOST_HEAD_BYTES:  # a long head, long trailers or long extensions of chunks
            self._refuse(_TOO_LONG)
        if self.headers is not None and len(self.headers) > _MOST_HEADERS:  # trailers count too
            self._finish()

    def _parse(self, data: bytes) -> None:
        """Parse a packet. `Upgrade` is ignored (RFC 9110, section 7.8), so the head is parsed again without it.

        Nothing else makes the parser of httptools read a body after such a head.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            except httptools.HttpParserError:
                self._refuse(self._refusal)
                return

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        rest = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"".join([line, *rest, b"\r\n"])

    def _refuse(self, response: bytes) -> None:
        """Answer input that is no request, and read no further. Earlier requests are answered first, and nothing else.

        Args:
            response: empty for uvicorn's, with status 400.
        """
        if self.transport.is_closing():
            return
        self._ignores_input = True
        if len(self.pipeline) > _MOST_PIPELINED:
            self._finish()
        elif self._owes_answer:
            return  # `on_response_complete` closes
        elif self.cycle is not None and self.cycle.response_started and not self._in_head:
            self.transport.close()
        elif response:
            self.transport.write(response)
            self.transport.close()
        else:
            self.send_400_response("Invalid HTTP request received.")

    def on_headers_complete(self) -> None:
        """See `httptools`."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("no proxy")  # ends the parser
            return
        if self._most_of_head > _MOST_HEAD_BYTES and self._head_bytes > _MOST_HEAD_BYTES:
            self._refusal = _TOO_LONG
            raise ValueError("too long")
        self._in_parts, self._silent_bytes = False, 0
        super().on_headers_complete()
        self.headers = _TRAILERS
        if len(self.pipeline) > _MOST_PIPELINED:
            raise ValueError("too many pipelined requests")
        extensions: Any = {ONE_WRITE: CycleWrite(self.cycle)}
        self.scope["extensions"] = extensions

    def on_body(self, body: bytes) -> None:
        """See `httptools`."""
        self._silent_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See `httptools`."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
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
    def _in_head(self) -> bool:
        """Whether the head of a request has begun and is incomplete."""
        scope, cycle = self.scope, self.cycle
        return scope is not None and (cycle is None or cycle.scope is not scope)

    @property
    def _in_body(self) -> bool:
        """Whether the head of a request is complete, but not its body."""
        return self.cycle is not None and self.cycle.more_body and not self._in_head

    @property
    def _owes_answer(self) -> bool:
        """Whether there is a complete request without an answer."""
        cycle = self.cycle
        return bool(self.pipeline) or (cycle is not None and not (cycle.response_complete or cycle.more_body))

    @property
    def _head_bytes(self) -> int:
        """Bytes of a head, about."""
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    # --- deadlines of what the client sends

    def on_response_complete(self) -> None:
        """Start the next request, or expect one. Uvicorn's method would set a timer for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if self._has_eof or self._ignores_input:
            self.transport.close()
            return
        self.flow.resume_reading()
        self._has_unread_body = self.cycle.more_body
        if not self._in_parts:
            self._deadline.expect(self._deadlines.unread_body if self._has_unread_body else self.timeout_keep_alive)

    def _expire(self) -> None:
        if self.transport.is_closing():
            self._finish()
        elif self.cycle is None or self.cycle.response_complete:
            if self._in_head:
                self.transport.write(_TOO_LATE)
            self._finish()
        elif self._in_parts:  # a pipelined head, during another request
            self._deadline.expect(self._deadlines.head)

    # --- the end

    def shutdown(self) -> None:
        """Close the connection, after the current response. See uvicorn."""
        self._is_stopping = True
        if self.transport.lingers:
            self._finish()
        super().shutdown()

    def _close(self) -> None:
        """Close the transport; first let a client that is still sending read the last response."""
        if self._has_eof or self._is_stopping or not (self._ignores_input or self._in_head or self._in_body):
            self._finish()
        else:
            self.transport.linger()
            self._deadline.expect(self._deadlines.unread_body)

    def _finish(self) -> None:
        """Close the transport, at the latest when its reader stops reading."""
        self.transport.end()
        self._reader.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._deadline.end()
        self.pipeline.clear()
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

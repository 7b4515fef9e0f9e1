"""How a connection closes: the client can read its last answer, but cannot keep the connection open.

A socket that is closed with unread input is reset, and a reset destroys answers that the client has not read yet (RFC
9112, section 9.6). So the transport first closes only the direction of answers, and drops what the client still sends.
"""

import asyncio
import socket
import struct
from collections.abc import Callable

_MOST_DROPPED = 2**26
"""Maximum bytes of a client that are dropped after the last answer."""


class ClosingTransport:
    """The transport of a connection, which its protocol may ask to close at any time.

    Args:
        transport: the transport of the event loop.
        on_close: called at the first call of `close`; decides how to close.

    Attributes:
        lingers: whether what the client sends is dropped until it closes.
    """

    __slots__ = (
        "_dropped", "_is_closing", "_on_close", "_transport", "abort", "get_extra_info", "get_write_buffer_size",
        "lingers", "pause_reading", "resume_reading", "write",
    )  # fmt: skip

    def __init__(self, transport: asyncio.Transport, on_close: Callable[[], None]) -> None:
        self._transport, self._on_close = transport, on_close
        self.write, self.abort, self.get_extra_info = transport.write, transport.abort, transport.get_extra_info
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.lingers = self._is_closing = False
        self._dropped = 0

    def is_closing(self) -> bool:
        """Check whether the connection has been closed, by either side."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection as `on_close` decides, once."""
        if not self.is_closing():
            self._is_closing = True
            self._on_close()

    def linger(self) -> None:
        """End the direction of answers; `drop` must get what the client still sends."""
        self.lingers = True
        if self._transport.can_write_eof():  # not with TLS
            self._transport.write_eof()
        self._transport.resume_reading()

    def drop(self, data: bytes) -> bool:
        """Drop what the client sends; return whether that may go on."""
        self._dropped += len(data)
        return self._dropped <= _MOST_DROPPED

    def end(self) -> None:
        """Close both directions after what was written."""
        self._is_closing, self.lingers = True, False
        if not self._transport.is_closing():
            self._transport.close()

    def reset(self) -> None:
        """Abort the connection. The system frees its send buffer at once, which a reader would not empty."""
        connection = self.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def forget(self) -> None:
        """Forget the protocol: it must be freed without garbage collection."""
        self._on_close = nothing


def nothing() -> None:
    """Do nothing."""

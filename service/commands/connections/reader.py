"""A watch on the reader of responses, which may be slow, but must not stop."""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable

from service.commands.connections.closing import ClosingTransport

_CHECKS = 16
"""Intervals over which a rate is an average.

The buffers of the reader's system empty in steps. Over a loopback connection a window opens by 64 KiB at once, which a
reader at 1000 B/s needs 66 s for.
"""


class ReaderWatch:
    """Aborts a connection if its reader takes less than a rate, on average.

    What counts is the bytes that the reader's system has not acknowledged. Those that the transport could not yet
    write are a small part of them: the system's send buffer has up to 4 MB, and takes more only when a third is free.

    Args:
        loop: the event loop.
        transport: the connection.
        interval: seconds between two checks.
        min_rate: minimum bytes a second; 0 for none.

    Attributes:
        until_read: called when the reader's system has acknowledged everything; None if the watch may end before.
    """

    __slots__ = ("_credit", "_interval", "_loop", "_needed", "_timer", "_transport", "_unread", "until_read")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: ClosingTransport, interval: float, min_rate: float
    ) -> None:
        self._loop, self._transport, self._interval = loop, transport, interval
        self._needed = min_rate * interval
        self._credit = 0.0  # bytes that the reader may still owe
        self._unread = 0
        self._timer: asyncio.TimerHandle | None = None
        self.until_read: Callable[[], None] | None = None

    def begin(self) -> None:
        """Watch the reader while there are bytes that the transport could not yet write."""
        if self._timer is None and self._waits:
            self._unread, self._credit = unread(self._transport), _CHECKS * self._needed
            self._timer = self._loop.call_later(self._interval, self._check)

    def begin_until_read(self, done: Callable[[], None]) -> None:
        """Watch the reader until its system has acknowledged everything, and then call `done`."""
        self.until_read = done
        self.begin()

    def end(self) -> None:
        """Stop watching."""
        self.until_read = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if not self._waits:
            if self.until_read is not None:
                self.until_read()
            return
        before, self._unread = self._unread, unread(self._transport)
        self._credit = min(self._credit + before - self._unread, _CHECKS * self._needed) - self._needed
        if self._needed and self._credit <= 0.0:
            self._transport.reset()
            return
        self._timer = self._loop.call_later(self._interval, self._check)

    @property
    def _waits(self) -> int:
        return self._transport.get_write_buffer_size() if self.until_read is None else unread(self._transport)


def unread(transport: ClosingTransport) -> int:
    """Return the bytes of a connection that its reader's system has not acknowledged."""
    return transport.get_write_buffer_size() + _in_send_buffer(transport.get_extra_info("socket"))


def _in_send_buffer(connection: socket.socket | None) -> int:
    """Return the bytes in the system's send buffer; 0 if the system does not tell."""
    if connection is None:
        return 0
    try:
        return int(struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))[0])
    except (OSError, ValueError):  # closed, or not Linux
        return 0

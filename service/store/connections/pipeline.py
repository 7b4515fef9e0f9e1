"""A pipelined connection to one server: commands are sent without waiting for earlier replies.

redis-py needs one connection per command in flight, and nearly three times the CPU time per command.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable
from typing import Any, TypeAlias

import hiredis
from redis import exceptions

from service.json_values import JsonObject
from service.store.connections.addresses import StoreAddress, User

Word: TypeAlias = bytes | memoryview | str | int | float
"""The name of a command, or one of its arguments."""

_REFUSALS: dict[str, type[exceptions.RedisError]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "OOM": exceptions.OutOfMemoryError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
}


def _refusal(text: str) -> exceptions.RedisError:
    """Convert a server's error message, whose first word is usually a code, to an exception."""
    code, _, rest = text.partition(" ")
    return _REFUSALS[code](rest) if code in _REFUSALS else exceptions.ResponseError(text.removeprefix("ERR "))


class _Replies(asyncio.Protocol):
    """One network connection. Replies are matched to commands in order.

    Args:
        timeout: seconds to wait for a reply.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=_refusal)
        self._outgoing: list[bytes] = []  # commands of this iteration of the event loop, written together
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._heard_at = 0.0  # when data last arrived, or a command was sent while no other awaited its reply
        self._is_watched = False  # whether a timer will check `_heard_at`; one timer serves all commands
        self._transport: asyncio.Transport | None = None
        self.gone = asyncio.Event()  # set when the connection is lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport is not a subclass

    @property
    def usable(self) -> bool:
        """Whether a command may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Send a command; return a future of its reply."""
        packed, future = hiredis.pack_command(command), self._loop.create_future()
        if not self._waiting:
            self._heard_at = self._loop.time()
        self._waiting.append(future)
        if not self._outgoing:
            self._loop.call_soon(self._write)
        self._outgoing.append(packed)
        if not self._is_watched:
            self._is_watched = True
            self._loop.call_later(self._timeout, self._watch)
        return future

    def _write(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def _watch(self) -> None:
        """Abort the connection if commands are waiting and the server has been silent for `timeout`.

        If it has not been silent that long, check again when it may have been.
        """
        self._is_watched = False
        if not self._waiting or self.gone.is_set():
            return
        left = self._heard_at + self._timeout - self._loop.time()
        if left > 0:
            self._is_watched = True
            self._loop.call_later(left, self._watch)
            return
        for future in self._waiting:
            if not future.done():
                future.set_exception(exceptions.TimeoutError(f"no reply within {self._timeout:g} s"))
        self.cut()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._heard_at = self._loop.time()
        while (reply := self._reader.gets()) is not False:
            future = self._waiting.popleft()
            if future.done():  # the caller was cancelled
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    def cut(self) -> None:
        """Abort the connection. Waiting callers get a `ConnectionError`."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        for future in self._waiting:
            if not future.done():
                future.set_exception(exceptions.ConnectionError(f"the connection was lost: {exc or 'closed'}"))


class Pipeline:
    """A connection that opens on first use, and again after a loss or a late reply. It never sends a command twice.

    Args:
        address: the address of one server.
        timeout: seconds to wait for a reply.
        tls: options as for redis-py. Only those for TLS are used.
        opening: seconds to wait for the connection; None to wait as long as for a reply.
    """

    def __init__(self, address: StoreAddress, timeout: float, tls: JsonObject, opening: float | None = None) -> None:
        self._address = address
        self._timeout = timeout
        self._patience = timeout if opening is None else opening
        self._tls = tls
        self._opening = asyncio.Lock()
        self._replies: _Replies | None = None

    def call(self, *command: Word) -> Awaitable[Any]:
        """Send one command; return its reply, without redis-py's conversions.

        Raises:
            redis.exceptions.RedisError: if the server refuses the command or is too late, or the connection is lost.
            OSError: if the connection cannot be opened.
        """
        replies = self._replies
        if replies is None or not replies.usable:
            return self._open_and_send(command)
        return replies.send(command)

    async def close(self) -> None:
        """Close the connection."""
        if self._replies is not None:
            self._replies.cut()
            await self._replies.gone.wait()

    async def _open_and_send(self, command: tuple[Word, ...]) -> Any:
        try:
            replies = await self._opened()
        except TimeoutError:
            raise exceptions.TimeoutError(f"no connection within {self._patience:g} s") from None
        return await replies.send(command)

    async def _opened(self) -> _Replies:
        async with self._opening:
            if self._replies is None or not self._replies.usable:
                async with asyncio.timeout(self._patience):
                    self._replies = await self._open()
            return self._replies

    async def _open(self) -> _Replies:
        loop, address = asyncio.get_running_loop(), self._address
        if address.path:
            _, replies = await loop.create_unix_connection(lambda: _Replies(self._timeout), address.path)
        else:
            host, port = address.nodes[0]
            context = _context(self._tls)
            _, replies = await loop.create_connection(lambda: _Replies(self._timeout), host, port, ssl=context)
        try:
            for command in _greeting(address.user, address.db):
                await replies.send(command)
        except BaseException:
            replies.cut()
            raise
        return replies


def _greeting(user: User, db: int) -> list[tuple[Word, ...]]:
    """Return the commands that authenticate a new connection and select its database."""
    login: list[Word] = [] if user.name is None else [user.name, user.password or ""]
    if user.name is None and user.password is not None:
        login = [user.password]
    return [*([("AUTH", *login)] if login else []), *([("SELECT", db)] if db else [])]


def _context(tls: JsonObject) -> ssl.SSLContext | None:
    """Return the TLS context for redis-py's options; None without TLS."""
    if not tls.get("ssl"):
        return None
    context = ssl.create_default_context()
    if "ssl_ca_certs" in tls:  # in addition to the system's authorities, as redis-py does
        context.load_verify_locations(tls["ssl_ca_certs"])
    if "ssl_certfile" in tls:
        context.load_cert_chain(tls["ssl_certfile"], tls.get("ssl_keyfile"))
    return context

"""A line to one server, on which commands follow each other without waiting for replies.

redis-py takes a connection for each command in flight, and nearly three times the processor's time for a command.
"""

import asyncio
import ssl
from collections import deque
from typing import Any

import hiredis
from redis import exceptions

from service.store.connections.addresses import StoreAddress, User

_REFUSALS: dict[str, type[exceptions.RedisError]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "OOM": exceptions.OutOfMemoryError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
}


def _refusal(text: str) -> exceptions.RedisError:
    """The error that a server answers, which begins with its code."""
    code, _, rest = text.partition(" ")
    return _REFUSALS[code](rest) if code in _REFUSALS else exceptions.ResponseError(text.removeprefix("ERR "))


class _Replies(asyncio.Protocol):
    """One connection: whoever asks is given the next reply that nobody else waits for."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(replyError=_refusal)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no subclass

    @property
    def usable(self) -> bool:
        """Whether a command may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Sends a command; the future brings its reply."""
        assert self._transport is not None
        packed, future = hiredis.pack_command(command), asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._transport.write(packed)
        return future

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            future = self._waiting.popleft()
            if future.done():  # whoever asked has gone
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    def cut(self) -> None:
        """Ends the connection; whoever waits for a reply is told."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        for future in self._waiting:
            if not future.done():
                future.set_exception(exceptions.ConnectionError(f"the connection was lost: {exc or 'closed'}"))


class Pipeline:
    """Opened when it is first used, and again after it was lost or a reply was late. Sends nothing twice.

    Args:
        address: of one server.
        timeout: seconds to wait for the connection and a reply together.
        tls: redis-py's options, where the address asks for TLS.
        opening: seconds to wait for the connection; as for a reply if not given.
    """

    def __init__(
        self, address: StoreAddress, timeout: float, tls: dict[str, Any], opening: float | None = None
    ) -> None:
        self._address = address
        self._timeout = timeout
        self._patience = timeout if opening is None else opening
        self._tls = tls
        self._opening = asyncio.Lock()
        self._replies: _Replies | None = None

    async def call(self, *command: Any) -> Any:
        """Sends one command; brings the reply as the protocol has it.

        Raises:
            RedisError: if the server refuses the command, does not answer in time, or is lost before it does.
            OSError: if there is no connection.
        """
        replies = self._replies
        try:
            async with asyncio.timeout(self._timeout):
                if replies is None or not replies.usable:
                    replies = await self._opened()
                return await replies.ask(command)
        except TimeoutError:
            if replies is not None:
                replies.cut()
            raise exceptions.TimeoutError(
                f"no reply within {self._timeout if replies else self._patience:g} s"
            ) from None

    async def close(self) -> None:
        """Ends the connection."""
        if self._replies is not None:
            self._replies.cut()
            await self._replies.gone.wait()

    async def _opened(self) -> _Replies:
        async with self._opening:
            if self._replies is None or not self._replies.usable:
                async with asyncio.timeout(self._patience):
                    self._replies = await self._open()
            return self._replies

    async def _open(self) -> _Replies:
        loop, address = asyncio.get_running_loop(), self._address
        if address.path:
            _, replies = await loop.create_unix_connection(_Replies, address.path)
        else:
            host, port = address.nodes[0]
            _, replies = await loop.create_connection(_Replies, host, port, ssl=_context(self._tls))
        try:
            for command in _greeting(address.user, address.db):
                await replies.ask(command)
        except BaseException:
            replies.cut()
            raise
        return replies


def _greeting(user: User, db: int) -> list[tuple[Any, ...]]:
    """What a connection begins with."""
    login: list[Any] = [] if user.name is None else [user.name, user.password or ""]
    if user.name is None and user.password is not None:
        login = [user.password]
    return [*([("AUTH", *login)] if login else []), *([("SELECT", db)] if db else [])]


def _context(tls: dict[str, Any]) -> ssl.SSLContext | None:
    """The context of redis-py's options."""
    if not tls.get("ssl"):
        return None
    context = ssl.create_default_context(cafile=tls.get("ssl_ca_certs"))
    if "ssl_certfile" in tls:
        context.load_cert_chain(tls["ssl_certfile"], tls.get("ssl_keyfile"))
    return context

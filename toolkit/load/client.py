"""A small HTTP/1.1 client over keep-alive connections, with one callback per request.

The driver must not be the bottleneck, and this client needs a fraction of the processor time of a general client
(docs/load-testing.md has the figures). httptools parses the responses.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self, cast
from urllib.parse import urlsplit

import httptools


class LoadError(Exception):
    """The load cannot run; the message says why."""


_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A server and the headers of every request to it."""

    host: str
    port: int
    tls: bool
    prefix: str  # prefix of every path
    headers: str  # complete lines

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> Self:
        """Parse `http(s)://host[:port][/prefix]`.

        Raises:
            LoadError: if the URL is invalid, or if a header cannot carry the key.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise LoadError(f"{url!r} is not a URL such as http://127.0.0.1:8000") from None
        if not parts.hostname or parts.username or parts.query or parts.fragment:
            raise LoadError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise LoadError("the API key has characters that a header cannot carry")
        headers = f"host: {parts.netloc}\r\nuser-agent: wager-load\r\ncontent-type: application/json\r\n"
        if api_key is not None:
            headers += f"authorization: Bearer {api_key}\r\n"
        return cls(parts.hostname, port, parts.scheme == "https", parts.path.rstrip("/"), headers)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        head = f"{method} {self.prefix}{path} HTTP/1.1\r\n{self.headers}content-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        return ssl.create_default_context() if self.tls else None


Done = Callable[[int, bytes], None]
"""Receives the status and body of a response, or (0, b"") without a response."""

NO_ANSWER = 0
_RETRY_SECONDS = 0.1  # between attempts to reconnect


class Answer(NamedTuple):
    """A response of the server."""

    status: int  # NO_ANSWER if none came
    body: bytes


class _Asked(NamedTuple):
    request: bytes
    done: Done
    at: float


class Client:
    """Sends each request on a free connection, or queues it until one is free.

    Args:
        target: the server.
        connections: the number of connections, each with one request at a time.
        timeout: seconds after which a request counts as unanswered.
    """

    def __init__(self, target: Target, connections: int, timeout: float = 30.0) -> None:
        self.target = target
        self._connections, self._timeout = connections, timeout
        self._free: deque[_Connection] = deque()
        self._waiting: deque[_Asked] = deque()
        self._open: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._closing = False

    async def __aenter__(self) -> Self:
        """Open all connections.

        Raises:
            LoadError: if the server does not accept connections.
        """
        self._loop = asyncio.get_running_loop()
        self._tls = self.target.tls_context()
        try:
            await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        except OSError as error:
            await self._end()
            raise LoadError(f"{self.target.host} port {self.target.port} does not answer: {error}") from None
        self._sweeper = self._loop.call_later(self._timeout / 4, self._sweep)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sweeper.cancel()
        await self._end()

    def send(self, request: bytes, done: Done) -> None:
        """Send or queue the bytes of a request. The event loop calls `done` once."""
        asked = _Asked(request, done, time.perf_counter())
        if self._free:
            self._free.popleft().start(asked)
        else:
            self._waiting.append(asked)

    async def call(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Send a request and wait for its response."""
        return await self.ask(self.target.request(method, path, body))

    async def ask(self, request: bytes) -> Answer:
        """Send the bytes of a request and wait for its response."""
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def done(status: int, answer: bytes) -> None:
            if not answered.done():
                answered.set_result(Answer(status, answer))

        self.send(request, done)
        return await answered

    def released(self, connection: "_Connection") -> None:
        """Give a connection that received its response the next request in the queue."""
        if self._waiting:
            connection.start(self._waiting.popleft())
        else:
            self._free.append(connection)

    def opened(self, connection: "_Connection") -> None:
        """Register a new connection."""
        self._open.add(connection)
        self.released(connection)

    def lost(self, connection: "_Connection") -> None:
        """Forget a lost connection and open a new one."""
        self._open.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        if not self._closing:
            task = self._loop.create_task(self._reconnect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        name = self.target.host if self._tls else None
        await self._loop.create_connection(
            lambda: _Connection(self), self.target.host, self.target.port, ssl=self._tls, server_hostname=name
        )

    async def _reconnect(self) -> None:
        while True:
            try:
                return await self._connect()
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)

    def _sweep(self) -> None:
        """Abandon requests that waited too long, on a connection or in the queue."""
        past = time.perf_counter() - self._timeout
        for connection in [each for each in self._open if each.busy_since < past]:
            connection.abort()
        while self._waiting and self._waiting[0].at < past:
            self._waiting.popleft().done(NO_ANSWER, b"")
        self._sweeper = self._loop.call_later(self._timeout / 4, self._sweep)

    async def _end(self) -> None:
        self._closing = True
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # lets the transports close
        while self._waiting:
            self._waiting.popleft().done(NO_ANSWER, b"")


class _Connection(asyncio.Protocol):
    """One connection with at most one outstanding request."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: _Asked | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._complete = self._keeps = False

    @property
    def busy_since(self) -> float:
        """When its request was submitted; infinity if the connection is free."""
        return float("inf") if self._asked is None else self._asked.at

    def start(self, asked: _Asked) -> None:
        """Send a request."""
        self._asked = asked
        self._transport.write(asked.request)

    def abort(self) -> None:
        """Close the connection immediately."""
        self._transport.abort()

    def on_headers_complete(self) -> None:
        """Note whether the connection stays open, which the parser determines at the end of the head."""
        self._keeps = self._parser.should_keep_alive()

    def on_body(self, chunk: bytes) -> None:
        """Collect a part of the body."""
        self._body.append(chunk)

    def on_message_complete(self) -> None:
        """Note the end of the response."""
        self._complete = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the open connection."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._client.opened(self)

    def data_received(self, data: bytes) -> None:
        """Parse some bytes of a response."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()
            return
        if self._complete:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the missing response, if a request was outstanding."""
        del exc
        asked, self._asked = self._asked, None
        self._client.lost(self)
        if asked is not None:
            asked.done(NO_ANSWER, b"")

    def _finish(self) -> None:
        asked, self._asked = self._asked, None
        body, self._body, self._complete = b"".join(self._body), [], False
        status = self._parser.get_status_code()
        if asked is None:  # a response without a request: do not reuse this connection
            self._transport.abort()
            return
        if self._keeps:
            self._client.released(self)
        else:
            self._transport.close()
        asked.done(status, body)

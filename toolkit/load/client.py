"""A small HTTP/1.1 client over keep-alive connections, with one callback per request.

The driver, which generates the load, must not be the bottleneck. This client needs a fraction of the processor time of
a general client: docs/guides/load-testing.md has figures. httptools parses the responses.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self, cast
from urllib.parse import urlsplit

import httptools

from toolkit import ToolError

OK = 200
NO_ANSWER = 0

Done = Callable[[int, bytes], None]
"""Receives the status and body of a response, or (NO_ANSWER, b"")."""

_PORTS = {"http": 80, "https": 443}
_RETRY_SECONDS = 0.1  # between attempts to reconnect


class LoadError(ToolError):
    """The load cannot run."""

    exit_code = 2


class Target(NamedTuple):
    """A server and the headers of every request to it."""

    host: str
    port: int
    tls: bool
    prefix: str  # prefix of every path
    headers: str  # complete lines, each with its line break

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> Self:
        """Parse `http(s)://host[:port][/prefix]`. Raises `LoadError`, also for a key that headers cannot carry."""
        wrong = LoadError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise wrong from None
        if not parts.hostname or parts.username or parts.query or parts.fragment:
            raise wrong
        headers = f"host: {parts.netloc}\r\nuser-agent: wager-load\r\ncontent-type: application/json\r\n"
        if api_key is not None:
            if not (api_key.isascii() and api_key.isprintable()):
                raise LoadError("the API key has characters that a header cannot carry")
            headers += f"authorization: Bearer {api_key}\r\n"
        return cls(parts.hostname, port, parts.scheme == "https", parts.path.rstrip("/"), headers)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        head = f"{method} {self.prefix}{path} HTTP/1.1\r\n{self.headers}content-length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Answer(NamedTuple):
    """A response of the server."""

    status: int  # NO_ANSWER if there was none
    body: bytes

    def __str__(self) -> str:
        shown = self.body[:500].decode(errors="replace")
        return "no answer came" if self.status == NO_ANSWER else f"{self.status} {shown}"


class _Asked(NamedTuple):
    request: bytes
    done: Done
    at: float


class Client:
    """Sends each request on a free connection, or queues it until one is free.

    Args:
        target: the server.
        connections: the number of connections, each with one request at a time.
        timeout: seconds after which a request counts as unanswered; up to a quarter more, as checks are periodic.
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
        """Open all connections."""
        self._loop = asyncio.get_running_loop()
        self._tls = ssl.create_default_context() if self.target.tls else None
        try:
            await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        except OSError as error:
            await self._close()
            raise LoadError(f"{self.target.host} port {self.target.port} does not answer: {error}") from None
        self._sweeper = self._loop.call_later(self._timeout / 4, self._sweep)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sweeper.cancel()
        await self._close()

    def send(self, request: bytes, done: Done) -> None:
        """Send the bytes of a request, or queue them. `done` is called once, in the event loop."""
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

        def done(status: int, body: bytes) -> None:
            if not answered.done():
                answered.set_result(Answer(status, body))

        self.send(request, done)
        return await answered

    def released(self, connection: "_Connection") -> None:
        """Send the next queued request, if any, on a connection that became free."""
        self._open.add(connection)
        if self._waiting:
            connection.start(self._waiting.popleft())
        else:
            self._free.append(connection)

    def lost(self, connection: "_Connection") -> None:
        """Replace a lost connection, unless the client is closing."""
        self._open.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        if not self._closing:
            task = self._loop.create_task(self._reconnect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        host, port, tls = self.target[:3]
        name = host if tls else None
        await self._loop.create_connection(lambda: _Connection(self), host, port, ssl=self._tls, server_hostname=name)

    async def _reconnect(self) -> None:
        while True:
            try:
                return await self._connect()
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)

    def _sweep(self) -> None:
        """Abandon requests that have waited too long, on a connection or in the queue; schedule the next sweep."""
        past = time.perf_counter() - self._timeout
        for connection in [each for each in self._open if each.busy_since < past]:
            connection.transport.abort()
        while self._waiting and self._waiting[0].at < past:
            self._waiting.popleft().done(NO_ANSWER, b"")
        self._sweeper = self._loop.call_later(self._timeout / 4, self._sweep)

    async def _close(self) -> None:
        self._closing = True
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in list(self._open):
            connection.transport.abort()
        await asyncio.sleep(0)  # lets the transports close
        while self._waiting:
            self._waiting.popleft().done(NO_ANSWER, b"")


class _Connection(asyncio.Protocol):
    """A connection with at most one outstanding request; the parser calls its `on_` methods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: _Asked | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._complete = self._keeps = False

    @property
    def busy_since(self) -> float:
        return float("inf") if self._asked is None else self._asked.at

    def start(self, asked: _Asked) -> None:
        self._asked = asked
        self.transport.write(asked.request)

    def on_headers_complete(self) -> None:
        self._keeps = self._parser.should_keep_alive()

    def on_body(self, chunk: bytes) -> None:
        self._body.append(chunk)

    def on_message_complete(self) -> None:
        self._complete = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._client.released(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()
            return
        if self._complete:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        asked, self._asked = self._asked, None
        self._client.lost(self)
        if asked is not None:
            asked.done(NO_ANSWER, b"")

    def _finish(self) -> None:
        asked, self._asked = self._asked, None
        body, self._body, self._complete = b"".join(self._body), [], False
        if asked is None:  # a response without a request: do not reuse this connection
            self.transport.abort()
            return
        if self._keeps:
            self._client.released(self)
        else:
            self.transport.close()
        asked.done(self._parser.get_status_code(), body)

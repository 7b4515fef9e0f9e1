"""A small HTTP/1.1 client over keep-alive connections: one callback for each request, nothing else.

It exists because the driver should not be the bottleneck: it costs a fraction of the processor time of a general
client (docs/load-testing.md has the figure). httptools does the parsing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self, cast

import httptools

from service.load.http.errors import LoadError
from service.load.http.target import Target

Done = Callable[[int, bytes], None]
"""Takes the status and body of an answer; (0, b"") when none came."""

NO_ANSWER = 0
_RETRY_SECONDS = 0.1  # between attempts to connect again


class Answer(NamedTuple):
    """What a server said."""

    status: int  # NO_ANSWER when nothing came
    body: bytes


class _Asked(NamedTuple):
    request: bytes
    done: Done
    at: float


class Client:
    """Sends each request on a free connection; what finds none waits in line.

    Args:
        target: Whom to ask.
        connections: How many, each with one request at a time.
        timeout: Seconds after which a request counts as without an answer.
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
        """Opens all connections.

        Raises:
            LoadError: when nobody listens there.
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
        """Sends the bytes of a request, or queues them; `done` is called once, from the event loop."""
        asked = _Asked(request, done, time.perf_counter())
        if self._free:
            self._free.popleft().start(asked)
        else:
            self._waiting.append(asked)

    async def call(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Asks and waits for the answer."""
        return await self.ask(self.target.request(method, path, body))

    async def ask(self, request: bytes) -> Answer:
        """Sends the bytes of a request and waits for the answer."""
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def done(status: int, answer: bytes) -> None:
            if not answered.done():
                answered.set_result(Answer(status, answer))

        self.send(request, done)
        return await answered

    def released(self, connection: "_Connection") -> None:
        """A connection has had its answer: it takes the next request in line."""
        if self._waiting:
            connection.start(self._waiting.popleft())
        else:
            self._free.append(connection)

    def opened(self, connection: "_Connection") -> None:
        """A connection is there."""
        self._open.add(connection)
        self.released(connection)

    def lost(self, connection: "_Connection") -> None:
        """A connection is gone: another is made in its place."""
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
        """Gives up what has waited too long, on a connection or in line."""
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
        await asyncio.sleep(0)  # for the transports to close
        while self._waiting:
            self._waiting.popleft().done(NO_ANSWER, b"")


class _Connection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: _Asked | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._complete = self._keeps = False

    @property
    def busy_since(self) -> float:
        """When its request was handed over; infinity when it is free."""
        return float("inf") if self._asked is None else self._asked.at

    def start(self, asked: _Asked) -> None:
        """Sends a request."""
        self._asked = asked
        self._transport.write(asked.request)

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def on_headers_complete(self) -> None:
        """The end of an answer's head, the moment at which the parser knows what follows; called by the parser."""
        self._keeps = self._parser.should_keep_alive()

    def on_body(self, chunk: bytes) -> None:
        """A part of a body; called by the parser."""
        self._body.append(chunk)

    def on_message_complete(self) -> None:
        """The end of an answer; called by the parser."""
        self._complete = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._client.opened(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()
            return
        if self._complete:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has gone, with or without the answer."""
        del exc
        asked, self._asked = self._asked, None
        self._client.lost(self)
        if asked is not None:
            asked.done(NO_ANSWER, b"")

    def _finish(self) -> None:
        asked, self._asked = self._asked, None
        body, self._body, self._complete = b"".join(self._body), [], False
        status = self._parser.get_status_code()
        if asked is None:  # nobody asked: this is no server to go on with
            self._transport.abort()
            return
        if self._keeps:
            self._client.released(self)
        else:
            self._transport.close()
        asked.done(status, body)

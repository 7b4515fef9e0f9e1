"""The laws of deadlines on connections: which silence closes one, when, and with which response."""

import asyncio
import gc
import weakref
from typing import Any, NamedTuple

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections.http_protocol import Deadlines, TimedProtocol
from tests.service.commands.clock import Clock

HEAD, UNREAD, KEEP_ALIVE = 10.0, 20.0, 75.0
START, REST = b"POST / HTTP/1.1\r\nhost: x\r\n", b"content-length: 3\r\n\r\n"
BODY = b"abc"


class Pipe:
    """A transport that keeps what it writes, and when it closes."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.written, self.closed_at, self.aborted_at, self.ended_at = clock, b"", None, None, None
        self.unread = 0  # bytes that the client has not read

    closed_at: float | None
    aborted_at: float | None
    ended_at: float | None

    def ends(self) -> tuple[float | None, float | None]:
        """Return when the connection was closed and aborted."""
        return self.closed_at, self.aborted_at

    def abort(self) -> None:
        """See `asyncio.Transport`."""
        self.aborted_at = self._clock.now

    def can_write_eof(self) -> bool:
        """See `asyncio.Transport`."""
        return True

    def write_eof(self) -> None:
        """See `asyncio.Transport`."""
        self.ended_at = self._clock.now

    def get_write_buffer_size(self) -> int:
        """See `asyncio.Transport`."""
        return self.unread

    def write(self, data: bytes) -> None:
        """See `asyncio.Transport`."""
        self.written += data

    def close(self) -> None:
        """See `asyncio.Transport`."""
        self.closed_at = self._clock.now

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self.closed_at is not None

    def get_extra_info(self, _name: str) -> None:
        """See `asyncio.Transport`."""

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""


class Connection:
    """A connection whose application answers a request when it is allowed to."""

    def __init__(self) -> None:
        config = uvicorn.Config(
            self._app, access_log=False, ws="none", interface="asgi3", timeout_keep_alive=int(KEEP_ALIVE)
        )
        config.load()
        self.clock = Clock(asyncio.get_running_loop())
        self.pipe, self._may_answer = Pipe(self.clock), asyncio.Event()
        deadlines, state = Deadlines(HEAD, UNREAD, 1.0), ServerState()
        loop: Any = self.clock
        self.protocol = TimedProtocol(deadlines=deadlines, config=config, server_state=state, app_state={}, _loop=loop)
        self.protocol.connection_made(self.pipe)  # type: ignore[arg-type]

    async def _app(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await self._may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def send(self, at: float, data: bytes, *, answer: bool = False) -> None:
        """Send bytes at a moment; answer the requests so far if `answer` is set."""
        self.clock.advance(at)
        if not self.pipe.is_closing():
            self.protocol.data_received(data)
        if answer:
            self._may_answer.set()
        for _ in range(5):
            await asyncio.sleep(0)
        self._may_answer.clear()


class Sent(NamedTuple):
    """Bytes of a client at a moment; with `answer`, the application then answers what is complete."""

    at: float
    data: bytes
    answer: bool = False


REQUEST = START + REST + BODY
SCENARIOS: dict[str, tuple[list[Sent], float | None, bytes]] = {
    "silence": ([], HEAD, b""),
    "part of the first head": ([Sent(4.0, START)], HEAD, b"408"),
    "a head in time": ([Sent(4.0, START), Sent(9.0, REST + BODY, answer=True)], 9.0 + KEEP_ALIVE, b"200"),
    "idle after a response": ([Sent(5.0, REQUEST, answer=True)], 5.0 + KEEP_ALIVE, b"200"),
    "kept alive": ([Sent(5.0, REQUEST, answer=True), Sent(79.0, REQUEST, answer=True)], 79.0 + KEEP_ALIVE, b"200"),
    "part of a later head": ([Sent(5.0, REQUEST, answer=True), Sent(30.0, START)], 30.0 + HEAD, b"408"),
    "blank lines are no request": ([Sent(5.0, REQUEST, answer=True), Sent(70.0, b"\r\n")], 5.0 + KEEP_ALIVE, b"200"),
    "an unread body": ([Sent(5.0, START + REST + b"a", answer=True)], 5.0 + UNREAD, b"200"),
    "a body read late": (
        [Sent(5.0, START + REST + b"a", answer=True), Sent(20.0, b"bc")],
        20.0 + KEEP_ALIVE,
        b"200",
    ),
    "a slow application": ([Sent(5.0, REQUEST)], None, b""),
    "a pipelined head during a request": ([Sent(5.0, REQUEST + START)], None, b""),
    "a pipelined head after a response": (
        [Sent(5.0, REQUEST + START), Sent(8.0, b"", answer=True)],
        5.0 + HEAD,
        b"408",
    ),
    "a huge head": ([Sent(4.0, START)] + [Sent(4.0, b"x: " + b"y" * 30_000 + b"\r\n")] * 3, 4.0 + UNREAD, b"431"),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_silent_client_loses_its_connection(name: str) -> None:
    """A connection closes at its deadline, not earlier and not later, with the response that says why."""
    sent, closes_at, status = SCENARIOS[name]
    connection = Connection()
    for each in sent:
        await connection.send(*each[:2], answer=each.answer)
    connection.clock.advance(1000.0)
    assert connection.pipe.closed_at == closes_at
    lines = [line for line in connection.pipe.written.split(b"\r\n") if line.startswith(b"HTTP/1.1")]
    assert (lines[-1].split()[1] if lines else b"") == status
    if closes_at is None:
        await connection.send(1000.0, b"", answer=True)


async def test_pipelined_requests_wait_unparsed() -> None:
    """Any number of requests in one packet is answered in turn, while only a few are parsed at a time."""
    connection, most = Connection(), 0
    await connection.send(0.0, REQUEST * 2000)
    for _ in range(2000):
        most = max(most, len(connection.protocol.pipeline))
        assert connection.protocol.flow.read_paused or not connection.protocol.pipeline
        await connection.send(0.0, b"", answer=True)
    assert connection.pipe.written.count(b"HTTP/1.1 200") == 2000
    assert 0 < most < 300
    assert not connection.pipe.is_closing()


async def test_reading_resumes_after_the_last_pipelined_request() -> None:
    """While requests wait, no further ones are read."""
    connection = Connection()
    await connection.send(0.0, REQUEST * 3)
    flow = connection.protocol.flow
    paused = []
    for _ in range(3):
        paused.append(flow.read_paused)
        await connection.send(0.0, b"", answer=True)
    paused.append(flow.read_paused)
    assert paused[0]
    assert not paused[-1]


async def test_a_closed_connection_is_freed_at_once() -> None:
    """A closed connection is in no cycle, so it needs no garbage collection."""
    connection = Connection()
    await connection.send(0.0, REQUEST * 3, answer=True)
    connection.protocol.connection_lost(None)
    await connection.send(1.0, b"", answer=True)
    gone = weakref.ref(connection.protocol)
    gc.disable()
    try:
        del connection.protocol
        assert gone() is None
    finally:
        gc.enable()


async def test_requests_set_no_timers() -> None:
    """A connection has one timer, however many requests it carries."""
    connection = Connection()
    for k in range(20):
        await connection.send(k / 10.0, REQUEST, answer=True)
    assert len(connection.clock.timers) == 1


@pytest.mark.parametrize("idle", [False, True], ids=["asked to close", "idle"])
async def test_a_reader_that_stops_loses_a_closed_connection(idle: bool) -> None:
    """The answers end, and closing waits for the reader while it reads, however slowly. If it stops, it is cut off."""
    connection, close = Connection(), b"" if idle else b"connection: close\r\n"
    connection.pipe.unread = 1000
    await connection.send(5.0, START + close + REST + BODY, answer=True)
    closed_at = 5.0 + KEEP_ALIVE if idle else 5.0
    for i in range(5):
        connection.clock.advance(closed_at + i * HEAD + 1.0)
        connection.pipe.unread -= 100
    assert (connection.pipe.ended_at, connection.pipe.ends()) == (closed_at, (None, None))
    connection.clock.advance(closed_at + 1000.0)
    assert connection.pipe.ends() == (None, closed_at + 20 * HEAD)  # 16 checks after the last progress
    connection.protocol.connection_lost(None)


async def test_a_half_closed_reader_that_stops_loses_its_connection() -> None:
    """A client that has closed its direction sends nothing more, so both directions close after its answer."""
    connection = Connection()
    connection.pipe.unread = 1000
    await connection.send(5.0, REQUEST, answer=True)
    connection.protocol.eof_received()
    connection.clock.advance(1000.0)
    assert connection.pipe.ends() == (5.0, 5.0 + 16 * HEAD)
    connection.protocol.connection_lost(None)


@pytest.mark.parametrize(("asked", "ended_at"), [(b"", 6.0), (b"connection: close\r\n", 5.0)], ids=["stop", "both"])
async def test_a_connection_closes_when_its_answers_are_read(asked: bytes, ended_at: float) -> None:
    """A stop waits for the reader of the last answer, until it has read everything, and not for its next request."""
    connection = Connection()
    connection.pipe.unread = 1000
    await connection.send(5.0, START + asked + REST + BODY, answer=True)
    connection.clock.advance(6.0)
    connection.protocol.shutdown()
    await connection.send(7.0, REQUEST, answer=True)
    assert (connection.pipe.ended_at, connection.pipe.closed_at) == (ended_at, None)
    connection.pipe.unread = 0
    connection.clock.advance(100.0)
    assert (connection.pipe.closed_at, connection.pipe.written.count(b"HTTP/1.1")) == (ended_at + HEAD, 1)
    connection.protocol.connection_lost(None)


async def test_a_lingering_connection_closes_in_time() -> None:
    """A refused body is dropped for a limited time and up to a limited size; a shutdown ends it at once."""
    for size, ends_at in ((0, 5.0 + UNREAD), (2**27, 6.0)):
        connection = Connection()
        await connection.send(5.0, START + b"connection: close\r\ncontent-length: 999999999\r\n\r\n", answer=True)
        assert (connection.pipe.ended_at, connection.pipe.closed_at) == (5.0, None)
        await connection.send(6.0, b"x" * size)
        connection.clock.advance(1000.0)
        assert connection.pipe.closed_at == ends_at
        assert connection.pipe.written.count(b"HTTP/1.1") == 1
    stopped = Connection()
    await stopped.send(5.0, START + b"connection: close\r\ncontent-length: 999\r\n\r\n", answer=True)
    stopped.clock.advance(6.0)
    stopped.protocol.shutdown()
    assert stopped.pipe.is_closing()

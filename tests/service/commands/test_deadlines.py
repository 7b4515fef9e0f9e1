"""The laws of deadlines on connections: which silence closes one, when, and with which response."""

import asyncio
from typing import Any, NamedTuple

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections import Deadlines, LimitedProtocol
from tests.service.commands.clock import Clock

HEAD, KEEP_ALIVE = 10.0, 75.0
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
        deadlines, state = Deadlines(HEAD, 1.0), ServerState()
        loop: Any = self.clock
        self.protocol = LimitedProtocol(
            deadlines=deadlines, config=config, server_state=state, app_state={}, _loop=loop
        )
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
    "blank lines": ([Sent(5.0, REQUEST, answer=True), Sent(70.0, b"\r\n")], 70.0 + HEAD, b"408"),
    "an unread body": ([Sent(5.0, START + REST + b"a", answer=True)], 5.0 + HEAD, b"200"),
    "an unread body by the byte": (
        [Sent(5.0, START + REST + b"a", answer=True), Sent(10.0, b"b")],
        5.0 + HEAD,
        b"200",
    ),
    "a request after an unread body": (
        [Sent(5.0, START + REST + b"a", answer=True), Sent(9.0, b"bc" + REQUEST, answer=True)],
        9.0 + KEEP_ALIVE,
        b"200",
    ),
    "a slow application": ([Sent(5.0, REQUEST)], None, b""),
    "a pipelined head during a request": ([Sent(5.0, REQUEST + START)], None, b""),
    "a head by the byte after a response": (
        [Sent(5.0, REQUEST, answer=True), *[Sent(30.0 + i, START[i : i + 1]) for i in range(9)]],
        30.0 + HEAD,
        b"408",
    ),
    "a huge head": ([Sent(4.0, START)] + [Sent(4.0, b"x: " + b"y" * 30_000 + b"\r\n")] * 3, 4.0, b"431"),
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
        await connection.send(0.0, b"", answer=True)
    assert connection.pipe.written.count(b"HTTP/1.1 200") == 2000
    assert 0 < most < 300
    assert not connection.pipe.is_closing()

"""The laws of connections: a request is read as HTTP says and hides no other; silent clients lose theirs."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections import Deadlines, LimitedProtocol
from tests.service.commands.connections import Clock, answer, answers, attempts, echo, refuse, seen, serving, show

pytestmark = pytest.mark.usefixtures("runner")

UPGRADES = ["h2c", "websocket", "h2c, websocket", "TLS/1.0", "x\r\nUpgrade: h2c"]
BODIES = {
    "no body": (b"", ""),
    "a body": (b"content-length: 3\r\n\r\nabc", "abc"),
    "chunks": (b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", "abc"),
}
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def upgrade(protocol: str, body: bytes, spelled: Callable[[bytes], bytes]) -> bytes:
    more = f"connection: Upgrade, HTTP2-Settings\r\nupgrade: {protocol}\r\nhttp2-settings: AAMAAABk\r\n"
    return b"POST /a?b=c HTTP/1.1\r\nHost: x\r\n" + spelled(more.encode()) + (body or b"\r\n")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("protocol", UPGRADES)
@pytest.mark.parametrize("spelled", [bytes, bytes.upper, bytes.title])
async def test_an_upgrade_is_ignored(protocol: str, body: str, spelled: Callable[[bytes], bytes]) -> None:
    """Any number of requests ask for one, in any spelling, and arrive in any two parts."""
    sent, text = BODIES[body]
    first = upgrade(protocol, sent, spelled)
    whole = first + first + LAST

    async with serving(echo) as server:
        for cut in range(0, len(first) + 20, 1 if spelled is bytes.upper else 7):
            read = await server.ask(*filter(None, (whole[:cut], whole[cut:])))
            assert answers(read) == seen(*[("POST", "/a", text)] * 2, ("GET", "/last", "")), cut


async def test_a_tunnel_is_refused() -> None:
    async with serving(echo) as server:
        read = await server.ask(b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n" + LAST)
        assert [status for status, _ in answers(read)] == [400]


@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("wrong", [b"BROKEN\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000])
async def test_what_is_refused_is_refused_after_the_answers_before_it(before: int, wrong: bytes) -> None:
    async with serving(echo) as server:
        valid = b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % i for i in range(before))
        found = answers(await server.ask(valid + wrong))
        assert found[:before] == seen(*[("GET", f"/{i}", "") for i in range(before)])
        assert [status for status, _ in found[before:]] == [400 if wrong.startswith(b"BROKEN") else 431]


def head(size: int) -> bytes:
    return (
        b"GET / HTTP/1.1\r\nhost: x\r\n"
        + b"".join(b"x%d: %b\r\n" % (i, b"y" * 8000) for i in range(size // 8000))
        + b"\r\n"
    )


@pytest.mark.parametrize("before", [b"", b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n"], ids=["first", "pipelined"])
async def test_a_long_head_is_refused(before: bytes) -> None:
    async with serving(echo) as server:
        first = seen(("GET", "/first", "")) if before else []
        assert answers(await server.ask(before + head(60_000) + LAST)) == [
            *first, *seen(("GET", "/", ""), ("GET", "/last", "")),
        ]  # fmt: skip
        for size in (90_000, 100_000, 1_000_000):
            long = head(size)
            for parts in ([before + long + LAST], [before, long + LAST], [before + long[:-3], long[-3:] + LAST]):
                got = answers(await server.ask(*filter(None, parts)))
                assert got in ([*first, (431, "")], first), (size, got)  # who still sends may miss it


ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\n", b"a:\r\n" * 2500),
    "one header": (b"GET / HTTP/1.1\r\na: ", b"b" * 10_000),
    "a path": (b"GET /", b"b" * 10_000),
    "an extension": (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;", b"b" * 10_000),
    "a trailer": (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ", b"b" * 10_000),
    "lines": (b"\r\n", b"\r\n" * 5000),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_what_is_no_body_is_limited(name: str) -> None:
    async with serving(echo) as server:
        start, more = ENDLESS[name]
        for parts in ([start, *[more] * 30], [start + more * 10], [start + more * 30]):
            read = await server.ask(*parts)
            assert [status for status, _ in answers(read)] in ([431], []), len(parts)


TRAILERS = [b"x-api-key: a", b"x-forwarded-for: 1.2.3.4", b"content-type: a/b", b"host: y", b"x-request-id: a",
            b"upgrade: h2c", b"expect: 100-continue"]  # fmt: skip


@pytest.mark.parametrize("trailer", TRAILERS)
@pytest.mark.parametrize("more", [b"", b"connection: upgrade\r\n"])
async def test_trailers_are_no_headers(trailer: bytes, more: bytes) -> None:
    start = b"POST / HTTP/1.1\r\nhost: x\r\n" + more + b"transfer-encoding: chunked\r\n\r\n"
    request = start + b"1\r\na\r\n0\r\n" + trailer + b"\r\n\r\n"
    names = [line.split(b":")[0].decode() for line in start.split(b"\r\n")[1:-2]]

    async with serving(show) as server:
        for cut in [0, *range(len(start) - 2, len(request) + 2, 3)]:
            read = await server.ask(*filter(None, ((request + LAST)[:cut], (request + LAST)[cut:])))
            assert answers(read) == [(200, json.dumps(each)) for each in (names, ["host", "connection"])], cut


@pytest.mark.parametrize("length", [b"content-length: 8000000\r\n", b"transfer-encoding: chunked\r\n"])
async def test_a_client_that_sends_a_refused_body_reads_its_answer(length: bytes) -> None:
    async with serving(refuse) as server:
        start, end = (b"7a1200\r\n", b"\r\n0\r\n\r\n") if b"chunked" in length else (b"", b"")
        begun = b"POST / HTTP/1.1\r\nhost: x\r\n" + length + b"\r\n" + start
        read = await server.ask(begun, *[b"x" * 1_000_000] * 8, end, LAST)
        assert answers(read) == [(413, "too large"), (413, "too large")]


INTERVAL, RATE = 10.0, 1000.0
CHECKS = 16
ANSWER = 20_000_000
LEAST = int(RATE * INTERVAL)  # bytes between two checks


async def long(_scope: Scope, _receive: Receive, send: Send) -> None:
    await answer(send, 200, b"x" * ANSWER)


class Reading:
    def __init__(self, protocol: LimitedProtocol, clock: Clock, client: socket.socket) -> None:
        self.clock, self.client, self.transport = clock, client, protocol.transport

    async def read(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        while size:
            size -= len(await loop.sock_recv(self.client, size))
            await asyncio.sleep(0)  # the transport writes on
        self.clock.advance(self.clock.now + INTERVAL)

    def end(self) -> None:
        self.transport.abort()
        self.client.close()


async def reading(receive_bytes: int = 0) -> Reading:
    loop = asyncio.get_running_loop()
    clock: Any = Clock(loop)
    config = uvicorn.Config(long, access_log=False, log_config=None, timeout_keep_alive=100_000)
    config.load()
    own: Any = {"config": config, "server_state": ServerState(), "app_state": {}, "_loop": clock}
    made = LimitedProtocol(deadlines=Deadlines(INTERVAL, RATE), **own)
    async with await loop.create_server(lambda: made, "127.0.0.1", 0) as server:
        client = socket.socket()
        client.setblocking(False)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await loop.sock_recv(client, 1)
        return Reading(made, clock, client)


async def drain(client: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(client, 2**20):
        pass


@pytest.mark.parametrize(
    ("size", "receive_bytes"),
    [(2 * LEAST, 4096), (3 * LEAST, 4096), (3 * LEAST, 0), (200_000, 0), (200_000, 4096), (200_000, 1_000_000)],
)
async def test_a_slow_reader_keeps_its_connection(size: int, receive_bytes: int) -> None:
    open_ = await reading(receive_bytes)
    try:
        for _ in range(60):
            await open_.read(size)
        assert not open_.transport.is_closing()
    finally:
        open_.end()


@pytest.mark.parametrize("size", [0, LEAST // 3])
@pytest.mark.parametrize("before", [0, 5 * LEAST])
async def test_a_reader_that_stops_loses_its_connection(size: int, before: int) -> None:
    open_ = await reading()
    try:
        for _ in range(20 if before else 0):
            await open_.read(before)
        checks = 0
        while not open_.transport.is_closing():
            await open_.read(size)
            checks += 1
        assert (1 if before else CHECKS - 1) <= checks <= 3 * CHECKS
        await asyncio.sleep(0)
        with pytest.raises(ConnectionResetError):
            await drain(open_.client)
    finally:
        open_.end()


HEAD, KEEP_ALIVE = 10.0, 75.0
START, REST = b"POST / HTTP/1.1\r\nhost: x\r\n", b"content-length: 3\r\n\r\n"
BODY = b"abc"


class Pipe:
    """A transport that keeps what it writes, and when it closes."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.written = clock, b""
        self.closed_at: float | None = None

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed_at = self._clock.now

    abort = close

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def write_eof(self) -> None:
        pass

    def get_extra_info(self, _name: str) -> None:
        pass

    pause_reading = resume_reading = write_eof


class Connection:
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
        self.clock.advance(at)
        if not self.pipe.is_closing():
            self.protocol.data_received(data)
        if answer:
            self._may_answer.set()
        for _ in range(5):
            await asyncio.sleep(0)
        self._may_answer.clear()


class Sent(NamedTuple):
    at: float
    data: bytes
    answer: bool = False


REQUEST = START + REST + BODY
SCENARIOS: dict[str, tuple[list[Sent], float | None, bytes]] = {
    "silence": ([], HEAD, b""), "part of the first head": ([Sent(4.0, START)], HEAD, b"408"),
    "a head in time": ([Sent(4.0, START), Sent(9.0, REST + BODY, answer=True)], 9.0 + KEEP_ALIVE, b"200"),
    "idle after a response": ([Sent(5.0, REQUEST, answer=True)], 5.0 + KEEP_ALIVE, b"200"),
    "kept alive": ([Sent(5.0, REQUEST, answer=True), Sent(79.0, REQUEST, answer=True)], 79.0 + KEEP_ALIVE, b"200"),
    "part of a later head": ([Sent(5.0, REQUEST, answer=True), Sent(30.0, START)], 30.0 + HEAD, b"408"),
    "blank lines": ([Sent(5.0, REQUEST, answer=True), Sent(70.0, b"\r\n")], 70.0 + HEAD, b"408"),
    "an unread body": ([Sent(5.0, START + REST + b"a", answer=True)], 5.0 + HEAD, b"200"),
    "an unread body by the byte": ([Sent(5.0, START + REST + b"a", answer=True), Sent(10.0, b"b")], 5.0 + HEAD,
        b"200"),
    "a request after an unread body": ([Sent(5.0, START + REST + b"a", answer=True), Sent(9.0, b"bc" + REQUEST,
        answer=True)], 9.0 + KEEP_ALIVE, b"200"),
    "a slow application": ([Sent(5.0, REQUEST)], None, b""),
    "a pipelined head during a request": ([Sent(5.0, REQUEST + START)], None, b""),
    "a head by the byte after a response": ([Sent(5.0, REQUEST, answer=True), *[Sent(30.0 + i,
        START[i : i + 1]) for i in range(9)]], 30.0 + HEAD, b"408"),
    "a huge head": ([Sent(4.0, START)] + [Sent(4.0, b"x: " + b"y" * 30_000 + b"\r\n")] * 3, 4.0, b"431"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_silent_client_loses_its_connection(name: str) -> None:
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
    connection, most = Connection(), 0
    await connection.send(0.0, REQUEST * 2000)
    for _ in range(2000):
        most = max(most, len(connection.protocol.pipeline))
        await connection.send(0.0, b"", answer=True)
    assert connection.pipe.written.count(b"HTTP/1.1 200") == 2000
    assert 0 < most < 300
    assert not connection.pipe.is_closing()


ATTEMPTS = dict(attempts())


async def test_no_request_is_hidden() -> None:
    paths: list[str] = []

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await echo(scope, receive, send)

    async with serving(noted) as server:
        for name, attempt in ATTEMPTS.items():
            for cut in (0, len(attempt) // 2):
                paths.clear()
                await server.ask(*filter(None, (attempt[:cut], attempt[cut:])), eof=True)
                assert paths in ([], ["/given"]), name

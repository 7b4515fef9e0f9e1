"""The law of responses in one write: a client reads the same as from two messages, in half the writes."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from service.api.middleware.exchange import ONE_WRITE, Exchange
from service.commands.connections.http_protocol import Deadlines, TimedProtocol
from service.request_context import RequestContext

DEADLINES = Deadlines(60.0, 60.0, 1.0)
HEAD = "POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n{}\r\n"
BODIES = [b"", b"{}", b"x" * 70_000]


def talk(*requests: str, more: str = "") -> bytes:
    """Return the bytes of requests with bodies of three bytes."""
    return b"".join((HEAD.format(more) + each).encode() for each in requests or ("abc",))


CONVERSATIONS = {
    "one request": [talk()],
    "kept alive": [talk(), talk(), talk()],
    "pipelined": [talk("abc", "def", "ghi")],
    "asked to close": [talk(more="connection: close\r\n")],
    "asked to close, pipelined": [talk("abc", "def", more="connection: close\r\n")],
    "HTTP/1.0": [talk().replace(b"HTTP/1.1", b"HTTP/1.0")],
    "expects 100": [talk(more="expect: 100-continue\r\n")],
    "a head and a body apart": [talk()[:-3], b"a", b"bc"],
}


def answering(body: bytes, whole: bool) -> ASGIApp:
    """Return an application that answers each request with a body, in one write if the server can."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if not whole:
            del scope["extensions"][ONE_WRITE]
        exchange = Exchange(scope, receive, send, RequestContext("made-1"), 0.0)
        message = await exchange.receive()
        while message["more_body"]:
            message = await exchange.receive()
        await exchange.respond_json(body)

    return app


class Writes:
    """A transport that counts what it writes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.count = 0

    def write(self, data: bytes) -> None:
        """Count a write."""
        self.count += 1
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Counted(TimedProtocol):
    """The protocol with a counting transport."""

    writes: Writes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `TimedProtocol`."""
        self.writes = Writes(transport)
        super().connection_made(self.writes)  # type: ignore[arg-type]


async def conversation(app: ASGIApp, parts: list[bytes], begun: asyncio.Event | None = None) -> tuple[bytes, int]:
    """Send parts of requests one after another; return what the client reads, and the number of writes.

    Args:
        app: the application.
        parts: bytes to send; if each is a request, the next one is sent after the answer.
        begun: what to wait for after the first part.
    """
    requests = b"".join(parts).count(b"POST ")
    protocols: list[Counted] = []

    def protocol() -> Counted:
        config = uvicorn.Config(app, access_log=False, server_header=False, ws="none", timeout_keep_alive=60)
        config.load()
        made = Counted(deadlines=DEADLINES, config=config, server_state=ServerState(), app_state={})
        protocols.append(made)
        return made

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    async with server, asyncio.timeout(10.0):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        read = b""
        for i, part in enumerate(parts):
            writer.write(part)
            await writer.drain()
            if begun is not None:
                await begun.wait()
            wanted = i + 1 if requests == len(parts) else 0
            if i + 1 == len(parts):
                wanted = requests
            while read.count(b"HTTP/1.1 200") < wanted and (more := await reader.read(2**20)):
                read += more
        if not any(sign in parts[-1] for sign in (b"connection: close", b"HTTP/1.0")):  # otherwise the server closes
            writer.write_eof()
        while more := await reader.read(2**20):
            read += more
        writer.close()
        await writer.wait_closed()
    return read, protocols[0].writes.count


@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_client_reads_the_same_bytes(name: str, body: bytes) -> None:
    """Header lines may have another order; bodies, closing and everything else are the same, from half the writes."""
    parts = CONVERSATIONS[name]
    one, writes = await conversation(answering(body, whole=True), parts)
    two, more_writes = await conversation(answering(body, whole=False), parts)
    assert lines(one) == lines(two)
    answered = two.count(b"HTTP/1.1 200")
    assert answered >= 1
    interim = two.count(b"HTTP/1.1 100")
    assert (writes - interim, more_writes - interim) == (answered, 2 * answered)


def lines(read: bytes) -> list[bytes]:
    """Return the lines of some responses, each head sorted."""
    heads: list[bytes] = []
    for part in read.split(b"\r\n\r\n"):
        heads += sorted(part.split(b"\r\n"))
    return heads


@pytest.mark.parametrize(("last", "arrived"), [(0, True), (1, False), (3, False)])
async def test_a_body_that_has_arrived_is_recognized(last: int, arrived: bool) -> None:
    """The body has arrived exactly if the server has all of it before the application begins."""
    found, begun, request = list[bool](), asyncio.Event(), talk()
    parts = [request[: len(request) - last], request[len(request) - last :]]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, RequestContext("made-1"), 0.0)
        found.append(exchange.body_has_arrived)
        begun.set()
        while (await exchange.receive())["more_body"]:
            pass
        await exchange.respond_json(b"{}")

    await conversation(app, parts, begun)
    assert found == [arrived]

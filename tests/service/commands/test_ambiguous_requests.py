"""The law of ambiguous requests: no body is read as another request, so none passes a proxy hidden in a body."""

import asyncio
from itertools import product
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.http_protocol import Deadlines, TimedProtocol
from tests.service.commands.test_deadlines import Clock, Pipe

HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
LENGTH = b"content-length: %d" % len(HIDDEN)
CHUNKED = b"transfer-encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
HEADS = {
    "a length": (LENGTH, HIDDEN, True),
    "chunks": (CHUNKED, CHUNKS, True),
    "a length and chunks": (LENGTH + b"\r\n" + CHUNKED, CHUNKS, False),
    "chunks and a length": (CHUNKED + b"\r\n" + LENGTH, CHUNKS, False),
    "two lengths": (b"content-length: 0\r\n" + LENGTH, HIDDEN, False),
    "a signed length": (LENGTH.replace(b": ", b": +"), HIDDEN, False),
    "an unknown coding": (b"transfer-encoding: xchunked", CHUNKS, False),
    "chunks inside a coding": (b"transfer-encoding: chunked, identity", CHUNKS, False),
    "a space before the colon": (CHUNKED.replace(b":", b" :"), CHUNKS, False),
    "a folded line": (b"x: a\r\n " + LENGTH, HIDDEN, False),
    "a zero byte": (b"x: a\0b\r\n" + LENGTH, HIDDEN, False),
    **{
        f"an upgrade to {other}, {name}": (
            b"connection: upgrade\r\nupgrade: %b\r\n" % other.encode() + head,
            body,
            False,
        )
        for other, (name, head, body) in product(
            ["h2c", "websocket", "other"], [("a length", LENGTH, HIDDEN), ("chunks", CHUNKED, CHUNKS)]
        )
    },
}
"""The header lines of a request, its body, and whether the request is a valid one."""


class Service:
    """A service that notes the requests that reach its application."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note a request, and answer it."""
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        self.received.append((scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


async def answers_to(service: Service, parts: list[bytes]) -> bytes:
    """Let a connection read parts, each after the answers to the ones before; return all its answers."""
    config = uvicorn.Config(service, access_log=False, ws="none", interface="asgi3", timeout_keep_alive=60)
    config.load()
    clock = Clock(asyncio.get_running_loop())
    pipe, loop = Pipe(clock), cast(asyncio.AbstractEventLoop, clock)
    deadlines, state = Deadlines(60.0, 60.0, 1.0), ServerState()
    protocol = TimedProtocol(deadlines=deadlines, config=config, server_state=state, app_state={}, _loop=loop)
    protocol.connection_made(cast(asyncio.Transport, pipe))
    for part in parts:
        if not pipe.is_closing():
            protocol.data_received(part)
        for _ in range(5):
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    return pipe.written


@pytest.mark.parametrize("split", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("name", HEADS)
async def test_a_body_is_never_read_as_a_request(name: str, split: bool) -> None:
    """A valid request has all of its body; an ambiguous one is refused, and the connection closes."""
    lines, body, valid = HEADS[name]
    service, head = Service(), b"POST /visible HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n\r\n"
    answers = await answers_to(service, [head, body] if split else [head + body])
    assert service.received == ([("/visible", HIDDEN)] if valid else [])
    assert answers.startswith(b"HTTP/1.1 200" if valid else b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("upgrade", ["h2c", "other"])
async def test_an_upgrade_without_a_body_is_ignored(upgrade: str) -> None:
    """A request without a body that asks for another protocol is answered in this one."""
    service = Service()
    asking = f"GET /visible HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: {upgrade}\r\n\r\n".encode()
    answers = await answers_to(service, [asking])
    assert answers.startswith(b"HTTP/1.1 200")
    assert service.received == [("/visible", b"")]

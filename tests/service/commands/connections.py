"""A server with `LimitedProtocol` on a real socket, and clients that send any bytes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections import Deadlines, LimitedProtocol

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
each_loop = pytest.mark.parametrize("loop", LOOPS)
PATIENT = Deadlines(60.0, 1.0)


async def answer(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    """Send a whole response."""
    headers = [(b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the method, the path and the body of a request, as a line of JSON."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    seen = [scope["method"], scope["path"], body.decode("latin-1")]
    await answer(send, 200, json.dumps(seen).encode() + b"\n")


async def show(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the names of the headers, as a line of JSON, after the body has arrived."""
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await answer(send, 200, json.dumps([name.decode() for name, _ in scope["headers"]]).encode() + b"\n")


async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer without reading the body."""
    await answer(send, 413, b"too large\n")


class Server:
    """A server of one application, with the protocols of its connections."""

    def __init__(self, app: ASGIApp, deadlines: Deadlines) -> None:
        self.protocols: list[LimitedProtocol] = []
        self.port = 0
        self._app, self._deadlines = app, deadlines

    def protocol(self) -> LimitedProtocol:
        """Return the protocol of a new connection."""
        config = uvicorn.Config(
            self._app, access_log=False, server_header=False, log_config=None, timeout_keep_alive=60, ws="none"
        )
        config.load()
        made = LimitedProtocol(deadlines=self._deadlines, config=config, server_state=ServerState(), app_state={})
        self.protocols.append(made)
        return made

    async def ask(self, *parts: bytes, eof: bool = False) -> bytes:
        """Send bytes, each part when the loop has nothing else to do; return all answers until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.closing(writer):
            for part in parts:
                with contextlib.suppress(ConnectionError, RuntimeError):  # the server has closed
                    writer.write(part)
                    await writer.drain()
                await asyncio.sleep(0)
            if eof:
                with contextlib.suppress(OSError, RuntimeError):
                    writer.write_eof()
            read = b""
            with contextlib.suppress(ConnectionResetError):  # by a server that closes before it has read everything
                while part := await reader.read(2**16):
                    read += part
            return read


@asynccontextmanager
async def serving(app: ASGIApp, deadlines: Deadlines = PATIENT, limit: float = 20.0) -> AsyncIterator[Server]:
    """Serve an application on a free port, for at most `limit` seconds."""
    made = Server(app, deadlines)
    server = await asyncio.get_running_loop().create_server(made.protocol, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(limit):
        yield made
        for each in made.protocols:
            each.transport.abort()


def run(loop: str, main: Callable[[], Any]) -> Any:
    """Run a coroutine in an event loop of a kind."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(main())


def answers(read: bytes) -> list[tuple[int, str]]:
    """Return the status and the body of each response; bodies are one line."""
    found, left = [], read
    while left:
        head, _, left = left.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        found.append((int(lines[0].split()[1]), left[:length].decode().rstrip("\n")))
        left = left[length:]
    return found


def seen(*requests: tuple[str, str, str]) -> list[tuple[int, str]]:
    """Return the answers of `echo` to requests."""
    return [(200, json.dumps(list(each))) for each in requests]

"""The laws of readers: a slow one keeps its connection, and one that stops loses it."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections import Deadlines, LimitedProtocol
from tests.service.commands.clock import Clock
from tests.service.commands.connections import answer, each_loop, run

INTERVAL, RATE = 10.0, 1000.0
CHECKS = 16
ANSWER = 20_000_000
LEAST = int(RATE * INTERVAL)  # bytes between two checks


async def long(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Send a long answer."""
    await answer(send, 200, b"x" * ANSWER)


class Reading:
    """A connection over a real socket with a long answer."""

    def __init__(self, protocol: LimitedProtocol, clock: Clock, client: socket.socket) -> None:
        self.clock, self.client, self.transport = clock, client, protocol.transport

    async def read(self, size: int) -> None:
        """Read some bytes, then let the time of a check pass."""
        loop = asyncio.get_running_loop()
        while size:
            size -= len(await loop.sock_recv(self.client, size))
            await asyncio.sleep(0)  # the transport writes on
        self.clock.advance(self.clock.now + INTERVAL)

    def end(self) -> None:
        """Close both sides."""
        self.transport.abort()
        self.client.close()


async def reading(receive_bytes: int = 0) -> Reading:
    """Open a connection, perhaps with a small receive buffer of its client."""
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
    """Read until the connection ends."""
    while await asyncio.get_running_loop().sock_recv(client, 2**20):
        pass


@each_loop
@pytest.mark.parametrize(
    ("size", "receive_bytes"),
    [(2 * LEAST, 4096), (3 * LEAST, 4096), (3 * LEAST, 0), (200_000, 0), (200_000, 4096), (200_000, 1_000_000)],
)
def test_a_slow_reader_keeps_its_connection(loop: str, size: int, receive_bytes: int) -> None:
    """A reader above the minimum rate may read on, although the buffers between empty in steps."""

    async def main() -> None:
        open_ = await reading(receive_bytes)
        try:
            for _ in range(60):
                await open_.read(size)
            assert not open_.transport.is_closing()
        finally:
            open_.end()

    run(loop, main)


@each_loop
@pytest.mark.parametrize("size", [0, LEAST // 3])
@pytest.mark.parametrize("before", [0, 5 * LEAST])
def test_a_reader_that_stops_loses_its_connection(loop: str, size: int, before: int) -> None:
    """A reader below the rate is cut off with a reset, so no answer stays in the system's buffer."""

    async def main() -> None:
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

    run(loop, main)

"""Stores in processes of their own, for the tests."""

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from service.processes import tied_command

REDIS_SERVER = shutil.which("redis-server")


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Debian's redis-server on a unix socket in the folder; its URL."""
    assert REDIS_SERVER is not None
    path = folder / "redis.sock"
    options = {"port": "0", "unixsocket": str(path), "dir": str(folder), "appendonly": "yes", "save": ""}
    flat = [part for option, value in options.items() for part in (f"--{option}", value)]
    command = tied_command([REDIS_SERVER, *flat, "--logfile", str(folder / "redis.log")])
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answers(f"unix://{path}"))
            yield f"unix://{path}"
        finally:
            process.kill()


@contextmanager
def raw(url: str) -> Iterator[redis.Redis]:
    """A plain client of a store, or of a cluster, for one conversation."""
    client: Any = redis.Redis if "+cluster" not in url else redis.RedisCluster
    client = client.from_url(url.replace("+cluster", "").partition(",")[0])
    try:
        yield client
    finally:
        client.close()


def keys_like(url: str, name: str) -> list[str]:
    """The keys of a store in whose names there is a model's, in order."""
    with raw(url) as client:
        found = [key if isinstance(key, str) else key.decode() for key in client.scan_iter(f"*{name}*", 10_000)]
    return sorted(found)


def answers(url: str) -> bool:
    """Whether a store is there and ready."""
    with raw(url) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Asks again and again, within a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s")
        time.sleep(0.01)


# From a beginning that is far from those of the processes beside it, which look for ports at the same time.
_ports = itertools.chain(range(10_000 + os.getpid() * 12_361 % 20_000, 32_000), itertools.cycle(range(10_000, 32_000)))


def free_port() -> int:
    """A TCP port that nobody listens on, below those that the kernel gives to clients, and never the last one."""
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("ports are tried for ever")


class Proxy:
    """A TCP port in front of a store, in the running event loop, that can lose replies and cut connections.

    Args:
        path: of the store's socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._conversations: list[asyncio.Task[None]] = []
        self.lose_replies_to: bytes | None = None  # a command; its connection is cut when the reply comes
        self.commands: list[bytes] = []  # everything that clients have sent
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Call when all clients have closed their connections."""
        self._server.close()
        await self._server.wait_closed()
        await asyncio.gather(*self._conversations)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_store, to_store = await asyncio.open_unix_connection(self._path)
        doomed = asyncio.Event()
        self._conversations.append(asyncio.create_task(self._answer(from_store, writer, doomed)))
        while command := await reader.read(2**20):
            self.commands.append(command)
            if self.lose_replies_to is not None and self.lose_replies_to in command:
                doomed.set()
            to_store.write(command)
        await _hang_up(to_store)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        while (reply := await reader.read(2**20)) and not doomed.is_set():
            writer.write(reply)
        await _hang_up(writer)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()

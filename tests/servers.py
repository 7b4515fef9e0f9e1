"""Store processes for the tests."""

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from service.processes import tied_command

REDIS_SERVER = shutil.which("redis-server")


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run Debian's redis-server on a unix socket in the folder; provide its URL."""
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
    """Open a plain redis-py client of a store or a cluster."""
    first = url.replace("+cluster", "").partition(",")[0]
    client: Any = redis.Redis.from_url(first) if "+cluster" not in url else redis.RedisCluster.from_url(first)
    try:
        yield client
    finally:
        if "+cluster" in url:  # redis-py's `close` leaves the connections open of clients made from a URL
            client.disconnect_connection_pools()
        client.close()


def dump(store_url: str) -> dict[str, Any]:
    """Return a store's whole content, by key, with bytes as hexadecimal digits."""
    with raw(store_url) as store:
        names = sorted(name.decode() for name in store.scan_iter("wager:*"))
        return {name: _content(store, name) for name in names}


def _text(name: bytes) -> str:
    """Decode a name, which another test may have damaged."""
    return name.decode(errors="backslashreplace")


def _content(store: Any, name: str) -> Any:
    match store.type(name).decode():
        case "string":
            return store.get(name).hex()
        case "hash":
            return {_text(field): value.hex() for field, value in sorted(store.hgetall(name).items())}
        case "zset":
            return {"members": [_text(member) for member in store.zrange(name, 0, -1)]}
        case "stream":
            entries = store.xrange(name)
            return [[id_.decode(), [[_text(k), v.hex()] for k, v in fields.items()]] for id_, fields in entries]
        case "list":
            return [item.hex() for item in store.lrange(name, 0, -1)]
        case other:
            raise TypeError(f"{name} is a {other}")


def keys_like(url: str, name: str) -> list[str]:
    """Return the keys of a store that contain a model's name, sorted."""
    with raw(url) as client:
        found = [key if isinstance(key, str) else key.decode() for key in client.scan_iter(f"*{name}*", 10_000)]
    return sorted(found)


def answers(url: str) -> bool:
    """Check whether a store is ready."""
    with raw(url) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll a condition until it holds.

    Raises:
        TimeoutError: if it does not hold within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s")
        time.sleep(0.01)


# The start depends on the process id: parallel test processes search for ports at the same time.
_ports = itertools.chain(range(10_000 + os.getpid() * 12_361 % 20_000, 32_000), itertools.cycle(range(10_000, 32_000)))


def free_port() -> int:
    """Return an unused TCP port below the kernel's ephemeral range, never the same one twice in a row."""
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the search for a port does not end")


class Relay(ABC):
    """A TCP port in front of a store; runs in the current event loop.

    Attributes:
        url: leads to the store.
    """

    url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of one connection on."""


class Proxy(Relay):
    """A TCP port in front of a store that can drop replies and cut connections; runs in the current event loop.

    Args:
        path: of the store's socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._conversations: list[asyncio.Task[None]] = []
        self.lose_replies_to: bytes | None = None  # a command; its connection is cut when the reply arrives
        self.commands: list[bytes] = []  # all bytes from clients

    async def __aexit__(self, *_: object) -> None:
        """Shut down; call after all clients have closed their connections."""
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

"""The network between the workers and the server: messages arrive late, in the order of their connection, or never."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import redis
from redis import exceptions

from service.store.connections.addresses import Kind
from service.store.connections.connections import Primary
from tests.simulation.event_loop import VirtualLoop
from tests.simulation.redis_server import RedisServer

_CALLBACKS: Mapping[str, Callable[[Any], Any]] = redis.Redis(protocol=2).response_callbacks
"""How redis-py converts the replies to commands other than scripts."""

_WAIT = "WAIT"
"""Follows a command on its line whose writes a replica must have."""


class Line:
    """One connection of a worker. Replies have the order of the commands.

    Args:
        loop: of the worker.
        owner: names the worker.
    """

    def __init__(self, loop: VirtualLoop, owner: str) -> None:
        self.loop = loop
        self.owner = owner
        self.commands: deque[tuple[tuple[Any, ...], asyncio.Future[Any]]] = deque()
        self.replies: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self.is_cut = False

    def send(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Send a command; return the future of its reply."""
        future: asyncio.Future[Any] = self.loop.create_future()
        words = tuple(word.tobytes() if isinstance(word, memoryview) else word for word in command)
        self.commands.append((words, future))
        return future

    def execute(self, server: RedisServer) -> tuple[tuple[Any, ...], Any]:
        """Let the server run the oldest command; return it and its reply, which is on its way."""
        command, future = self.commands.popleft()
        reply = server.confirm() if command[0] == _WAIT else server.call(*command)
        self.replies.append((future, reply))
        return command, reply

    def deliver(self) -> None:
        """Let the worker read the oldest reply."""
        future, reply = self.replies.popleft()
        if future.done():
            return
        with self.loop.current():
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    def cut(self) -> None:
        """Lose the connection: commands on their way do not arrive, and neither do replies."""
        waiting = [future for _, future in self.commands] + [future for future, _ in self.replies]
        self.is_cut = True
        self.commands.clear()
        self.replies.clear()
        with self.loop.current():
            for future in waiting:
                if not future.done():
                    future.set_exception(exceptions.ConnectionError("the connection was lost: closed"))


class Network:
    """All connections to the server."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def open(self, loop: VirtualLoop, owner: str) -> Line:
        """Open a connection."""
        line = Line(loop, owner)
        self.lines.append(line)
        return line

    def busy(self) -> list[Line]:
        """Return the lines with messages on their way; forget those that are closed."""
        self.lines = [line for line in self.lines if not line.is_cut]
        return [line for line in self.lines if line.commands or line.replies]

    def drop(self, owner: str) -> None:
        """Forget the connections of a worker that is gone."""
        self.lines = [line for line in self.lines if line.owner != owner]

    def cut(self, owner: str | None = None) -> None:
        """Cut the connections of one worker, or all."""
        for line in self.lines:
            if owner in (None, line.owner):
                line.cut()


class SimulatedConnection:
    """Implements `service.store.connections.connections.Connection` over the network of a simulation.

    Args:
        network: carries the messages.
        loop: of the worker.
        owner: names the worker.
        timeout: seconds to wait for each reply.
    """

    kind = Kind.SERVER

    def __init__(self, network: Network, loop: VirtualLoop, owner: str, timeout: float) -> None:
        self._open: Callable[[], Line] = partial(network.open, loop, owner)
        self._timeout = timeout
        self._pipeline: Line | None = None
        self._free: list[Line] = []

    async def call(self, *command: Any) -> Any:
        """See `Connection.call`. Scripts share one line, as with `service.store.connections.pipeline`."""
        if command[0] == "EVALSHA":
            if self._pipeline is None or self._pipeline.is_cut:
                self._pipeline = self._open()
            return await self._on(self._pipeline, command)
        line = self._take()
        reply = await self._on(line, command)
        self._free.append(line)
        return converted(command, reply)

    async def call_and_wait(self, _: int, __: float, *command: Any) -> tuple[Any, int]:
        """See `Connection.call_and_wait`."""
        line = self._take()
        sent = line.send(command)
        sent.add_done_callback(_retrieved)
        confirmed = await self._on(line, (_WAIT,))
        self._free.append(line)
        return sent.result(), confirmed

    async def copy(self, _: Callable[[bytes], object]) -> None:
        """See `Connection.copy`."""
        raise NotImplementedError

    async def primaries(self) -> list[Primary]:
        """See `Connection.primaries`."""
        return [Primary(self.call, None)]

    async def close(self) -> None:
        """See `Connection.close`."""

    def _take(self) -> Line:
        while self._free:
            line = self._free.pop()
            if not line.is_cut:
                return line
        return self._open()

    async def _on(self, line: Line, command: tuple[Any, ...]) -> Any:
        try:
            async with asyncio.timeout(self._timeout):
                return await line.send(command)
        except TimeoutError:
            line.cut()
            raise exceptions.TimeoutError(f"no reply within {self._timeout:g} s") from None


def converted(command: tuple[Any, ...], reply: Any) -> Any:
    """Return a reply as redis-py does; raise an error."""
    if isinstance(reply, Exception):
        raise reply
    convert = _CALLBACKS.get(command[0])
    return reply if convert is None or command[0].startswith("EVAL") else convert(reply)


def _retrieved(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()

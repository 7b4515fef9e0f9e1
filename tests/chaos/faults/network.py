"""Faults: killed processes, a network that is cut, slow or one-way, and full memory."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Self

import redis

from tests.fleets import Server
from tests.servers import wait_until
from tests.service.wager import Wager


class Weather(StrEnum):
    """The network conditions that a proxy simulates."""

    CLEAR = "clear"
    CUT = "cut"  # closes all connections and refuses new ones
    SLOW = "slow"  # delays all traffic
    HALF_OPEN = "half-open"  # accepts connections but passes nothing
    NO_REPLIES = "no-replies"  # passes requests, and closes the connection at the reply


class FaultyProxy:
    """A TCP proxy for a store, in the running event loop.

    Args:
        port: port of the store.
        delay: seconds that a slow network adds to each packet.
    """

    def __init__(self, port: int, delay: float = 0.1) -> None:
        self._port = port
        self._delay = delay
        self._writers: set[asyncio.StreamWriter] = set()
        self._weather = Weather.CLEAR
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.turn(Weather.CUT)
        await asyncio.sleep(0.1)

    def turn(self, weather: Weather) -> None:
        """Set the network condition. `CUT` and `CLEAR` also close current connections."""
        self._weather = weather
        if weather in {Weather.CUT, Weather.CLEAR}:  # a half-open connection would stay half-open
            for writer in list(self._writers):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._weather is Weather.CUT:
            writer.close()
            return
        try:
            from_store, to_store = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:  # the store is down
            writer.close()
            return
        self._writers |= {writer, to_store}
        await asyncio.gather(self._pass(reader, to_store, False), self._pass(from_store, writer, True))
        self._writers -= {writer, to_store}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                if self._weather is Weather.HALF_OPEN:
                    continue
                if self._weather is Weather.SLOW:
                    await asyncio.sleep(self._delay)
                if self._weather is Weather.CUT or (replies and self._weather is Weather.NO_REPLIES):
                    break
                writer.write(data)
                await writer.drain()
        writer.close()


Fault = Callable[[], Awaitable[None]]
"""Injects a fault, and returns after the fault is over."""


class Faults:
    """The faults of a service with one store.

    Args:
        wager: service with several workers.
        store: store of the service.
        proxy: proxy between the service and the store.
        seconds: duration of a fault.
    """

    def __init__(self, wager: Wager, store: Server, proxy: FaultyProxy, seconds: float = 0.7) -> None:
        self._wager = wager
        self._store = store
        self._proxy = proxy
        self._seconds = seconds

    def all(self) -> dict[str, Fault]:
        """Return every fault by name."""
        weathers = [weather for weather in Weather if weather is not Weather.CLEAR]
        processes: dict[str, Fault] = {"killed store": self.kill_store, "killed worker": self.kill_worker}
        return processes | {"full memory": self.fill_memory} | {each.value: self._turns(each) for each in weathers}

    async def kill_store(self) -> None:
        """`kill -9` the store, and restart it on the same data."""
        self._store.kill()
        await asyncio.sleep(self._seconds / 2)
        self._store.start()
        await asyncio.to_thread(wait_until, self._store.answers)

    async def kill_worker(self) -> None:
        """`kill -9` a worker, which the service then replaces."""
        pids = self._wager.worker_pids()
        if len(pids) > 1:  # at least one worker survives
            os.kill(pids[0], signal.SIGKILL)
        await asyncio.sleep(self._seconds)

    async def fill_memory(self) -> None:
        """Let the store reach its memory limit, then remove the limit."""
        for limit in (1, 0):
            with contextlib.suppress(redis.RedisError):
                await asyncio.to_thread(self._store.send, "CONFIG", "SET", "maxmemory", limit)
            await asyncio.sleep(self._seconds / 2)

    def _turns(self, weather: Weather) -> Fault:
        async def turn() -> None:
            self._proxy.turn(weather)
            await asyncio.sleep(self._seconds)
            self._proxy.turn(Weather.CLEAR)

        return turn

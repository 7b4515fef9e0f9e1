"""A closed-loop HTTP driver: so many keep-alive connections, each asking again when it is answered.

Latencies of a closed loop leave out the waiting of requests that were not sent because earlier ones were
slow; they compare servers under the same load and are no promise to a user.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from service.load.http.client import Client
from service.load.http.sender import OK
from service.load.http.target import Target


class Outcome(NamedTuple):
    """What a run brought."""

    seconds: float
    latencies: Sequence[float]  # seconds
    bodies: list[bytes]  # of the answers, when kept

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """A quantile of the latency, in milliseconds."""
        return float(np.quantile(self.latencies, share)) * 1000


def post(path: str, body: bytes) -> bytes:
    """The bytes of a request."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Loops:
    """Connections that send one request each, and the next when it is answered, until there are no more."""

    def __init__(self, requests: Iterator[bytes], keep: bool) -> None:
        self.latencies: list[float] = []
        self.bodies: list[bytes] = []
        self._requests, self._keep = requests, keep
        self._under_way = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, clients: Sequence[Client], connections: int) -> None:
        """Sends all of it, over so many connections, those of the clients in turn."""
        for _, client in zip(range(connections), itertools.cycle(clients), strict=False):
            self._go_on(client)
        if self._under_way:
            await self._over

    def _go_on(self, client: Client) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._under_way += 1
            client.send(request, partial(self._answered, client, time.perf_counter()))

    def _answered(self, client: Client, sent_at: float, status: int, body: bytes) -> None:
        self.latencies.append(time.perf_counter() - sent_at)
        self._under_way -= 1
        if self._over.done():  # another one has failed
            return
        if status != OK:
            self._over.set_exception(RuntimeError(f"{status or 'no answer'}: {body.decode(errors='replace')}"))
            return
        if self._keep:
            self.bodies.append(body)
        self._go_on(client)
        if not self._under_way:
            self._over.set_result(None)


async def drive(port: int | Sequence[int], requests: Iterator[bytes], connections: int, keep: bool = False) -> Outcome:
    """Sends all requests to 127.0.0.1 over so many connections, to the ports in turn.

    Raises:
        RuntimeError: with the answer, if one is not 200.
    """
    ports = [port] if isinstance(port, int) else port
    async with contextlib.AsyncExitStack() as stack:
        each = -(-connections // len(ports))  # rounded up
        opening = (Client(Target.parse(f"http://127.0.0.1:{one}"), each) for one in ports)
        clients = [await stack.enter_async_context(client) for client in opening]
        loops = _Loops(requests, keep)
        started = time.perf_counter()
        await loops.run(clients, connections)
        return Outcome(time.perf_counter() - started, loops.latencies, loops.bodies)

"""A closed-loop HTTP driver: so many keep-alive connections, each asking again when it is answered.

Latencies of a closed loop leave out the waiting of requests that were not sent because earlier ones were
slow; they compare servers under the same load and are no promise to a user.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import numpy as np


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


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None], keep: list[bytes] | None) -> None:
        self.latencies: list[float] = []
        self._requests, self._done, self._keep = requests, done, keep
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, split, rest = self._buffer.partition(b"\r\n\r\n")
        if not split or len(rest) < _content_length(head):
            return
        self.latencies.append(time.perf_counter() - self._sent_at)
        if not head.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(RuntimeError(self._buffer.decode()))
            self._transport.close()
            return
        if self._keep is not None:
            self._keep.append(rest)
        self._buffer = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._done.set_result(None)
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def _content_length(head: bytes) -> int:
    start = head.lower().index(b"content-length:") + 15
    return int(head[start:].split(b"\r\n", 1)[0])


async def drive(port: int | Sequence[int], requests: Iterator[bytes], connections: int, keep: bool = False) -> Outcome:
    """Sends all requests to 127.0.0.1 over so many connections, to the ports in turn.

    Raises:
        RuntimeError: with the answer, if one is not 200.
    """
    loop = asyncio.get_running_loop()
    kept: list[bytes] = []
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    ports = [port] if isinstance(port, int) else port
    started = time.perf_counter()
    opened = [
        loop.create_connection(partial(_Connection, requests, done, kept if keep else None), "127.0.0.1", one)
        for done, one in zip(futures, itertools.cycle(ports), strict=False)
    ]
    protocols = [protocol for _, protocol in await asyncio.gather(*opened)]
    await asyncio.gather(*futures)
    seconds = time.perf_counter() - started
    return Outcome(seconds, [latency for protocol in protocols for latency in protocol.latencies], kept)

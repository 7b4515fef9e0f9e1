"""The closed loop of `service.load` over one or several servers. It stops at the first failure."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from service.load.http.client import Client
from service.load.http.loops import closed_loop
from service.load.http.sender import OK
from service.load.http.target import Target


class Outcome(NamedTuple):
    """The result of a run."""

    seconds: float
    answers: int
    bodies: list[bytes]  # bodies of the answers, if kept

    @property
    def rate(self) -> float:
        """The answers per second."""
        return self.answers / self.seconds


def post(path: str, body: bytes) -> bytes:
    """Return the bytes of a request."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def drive(port: int | Sequence[int], requests: Iterator[bytes], connections: int, keep: bool = False) -> Outcome:
    """Send all requests to 127.0.0.1 over the given number of connections, divided among the ports.

    Raises:
        RuntimeError: if an answer has another status than 200; the message holds the answer.
    """
    ports = [port] if isinstance(port, int) else port
    shares = [len(range(i, connections, len(ports))) for i in range(len(ports))]
    bodies: list[bytes] = []
    failures: list[str] = []

    def answered(status: int, body: bytes) -> None:
        if status != OK:
            failures.append(f"{status or 'no answer'}: {body.decode(errors='replace')}")
        elif keep:
            bodies.append(body)

    async with contextlib.AsyncExitStack() as stack:
        opening = [
            (Client(Target.parse(f"http://127.0.0.1:{one}"), n), n) for one, n in zip(ports, shares, strict=True)
        ]
        clients = [(await stack.enter_async_context(client), n) for client, n in opening if n]
        left, started = itertools.takewhile(lambda _: not failures, requests), time.perf_counter()
        loops = [closed_loop(client, left, n, answered=answered) for client, n in clients]
        measured = await asyncio.gather(*loops)
        seconds = time.perf_counter() - started
    if failures:
        raise RuntimeError(failures[0])
    return Outcome(seconds, sum(each.answered for each in measured), bodies)

"""Generates load on one endpoint from this process, in an open or a closed loop."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from toolkit.load.client import NO_ANSWER, OK, Client, Done, Target
from toolkit.load.timing import Histogram, Measured, Pacer, times_within


class Bound:
    """A limit on outstanding requests, shared by several senders."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._outstanding = 0
        self._idle = asyncio.Event()

    def enter(self) -> bool:
        """Admit a request if the limit allows it; return whether it was admitted."""
        room = self._outstanding < self._limit
        self._outstanding += room
        return room

    def leave(self) -> None:
        """Count one request as finished."""
        self._outstanding -= 1
        if not self._outstanding:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until no request is outstanding."""
        while self._outstanding:
            self._idle.clear()
            await self._idle.wait()


class MeasuredSender:
    """Sends requests of one kind, and measures those that are due within a window.

    Args:
        client: the client that sends them.
        bound: the limit on outstanding requests; further ones are counted but not sent.
        begins: start of the window, in seconds of `time.perf_counter`.
        ends: end of the window.
    """

    def __init__(self, client: Client, bound: Bound, begins: float, ends: float) -> None:
        self._client, self._bound = client, bound
        self._begins, self._ends = begins, ends
        self.measured = Measured(seconds=max(0.0, ends - begins))

    def send(self, due: float, request: bytes, done: Done) -> bool:
        """Send a request that was due at `due`; return whether the bound had room for it."""
        counts = self._begins <= due < self._ends
        self.measured.due += counts
        if not self._bound.enter():
            self.measured.not_sent += counts
            return False
        self._client.send(request, partial(self._answered, due, done))
        return True

    def _answered(self, due: float, done: Done, status: int, body: bytes) -> None:
        now = time.perf_counter()
        self._bound.leave()
        self.measured.answered += status == OK and self._begins <= now < self._ends
        if self._begins <= due < self._ends:
            self.measured.latency.add(now - due)
            self.measured.no_answer += status == NO_ANSWER
            self.measured.refused += status not in {OK, NO_ANSWER}
        done(status, body)


class Requests(NamedTuple):
    """The requests to send."""

    method: str
    path: str
    bodies: Iterable[bytes]  # one per request; a loop ends early when they run out
    keep: Callable[[bytes], None] | None = None  # receives the body of each response with status 200

    def encoded(self, target: Target) -> Iterator[bytes]:
        """Return the bytes of each request, one at a time."""
        return (target.request(self.method, self.path, body) for body in self.bodies)


class Pace(NamedTuple):
    """The schedule of an open loop."""

    rate: float  # requests per second
    seconds: float  # measured time
    warm_up: float = 0.0  # seconds at the same rate before the measured time
    in_flight: int = 1000  # maximum outstanding requests, waiting for a connection or a response
    seed: int = 0  # of the arrival times


class Run(NamedTuple):
    """The result of an open loop."""

    measured: Measured  # latencies count from the due times
    lag: Histogram  # delays from due times to the starts of requests


async def open_loop(client: Client, requests: Requests, pace: Pace) -> Run:
    """Send requests at the times of a Poisson process, even while earlier ones are unanswered."""
    start = time.perf_counter()
    bound, pacer, all_sent = Bound(pace.in_flight), Pacer(), asyncio.Event()
    sender = MeasuredSender(client, bound, start + pace.warm_up, start + pace.warm_up + pace.seconds)
    times = times_within(pace.rate, pace.warm_up + pace.seconds, np.random.default_rng(pace.seed))
    left = zip(times, requests.encoded(client.target), strict=False)

    def plan_next() -> None:
        following = next(left, None)
        if following is None:
            all_sent.set()
        else:
            pacer.at(start + following[0], lambda due: arrive(due, following[1]))

    def arrive(due: float, request: bytes) -> None:
        sender.send(due, request, answered)
        plan_next()

    def answered(status: int, body: bytes) -> None:
        if requests.keep is not None and status == OK:
            requests.keep(body)

    plan_next()
    await all_sent.wait()
    await bound.drained()
    pacer.stop()
    return Run(sender.measured, pacer.lag)


async def closed_loop(
    client: Client,
    requests: Iterable[bytes],
    connections: int,
    seconds: float = float("inf"),
    answered: Done = lambda _status, _body: None,
) -> Measured:
    """Send requests as fast as they are answered, `connections` at a time, until they run out or the time is up.

    A closed loop sends fewer requests if earlier ones are slow, and its latencies omit the time that users would have
    waited to send theirs. They can compare servers, but do not predict users' latencies.

    Args:
        client: a client with at least `connections` connections.
        requests: bytes of whole requests, as from `Requests.encoded`; several loops may share an iterator.
        connections: the number of concurrent requests.
        seconds: how long to send and measure.
        answered: receives the status and the body of each response, or `NO_ANSWER` and an empty body.
    """
    start = time.perf_counter()
    bound, left = Bound(connections), iter(requests)
    sender = MeasuredSender(client, bound, start, start + seconds)

    def send_next() -> None:
        now = time.perf_counter()
        request = next(left, None) if now < start + seconds else None
        if request is not None:
            sender.send(now, request, on_answer)

    def on_answer(status: int, body: bytes) -> None:
        answered(status, body)
        send_next()

    for _ in range(connections):
        send_next()
    await bound.drained()
    sender.measured.seconds = min(seconds, time.perf_counter() - start)
    return sender.measured

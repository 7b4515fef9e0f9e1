"""Load on one endpoint from this process, as an open or a closed loop."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from toolkit.load.client import Client, Done, Target
from toolkit.load.requests import OK, Bound, MeasuredSender
from toolkit.load.timing import Histogram, Measured, Pacer, times_within


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
    seed: int = 0  # seed of the arrival times


class Run(NamedTuple):
    """The result of an open loop."""

    measured: Measured  # latencies from when requests were due
    lag: Histogram  # how late the driver started requests


async def open_loop(client: Client, requests: Requests, pace: Pace) -> Run:
    """Send requests at the times of a Poisson process, even while earlier ones are unanswered."""
    start = time.perf_counter()
    bound, pacer, all_sent = Bound(pace.in_flight), Pacer(), asyncio.Event()
    sender = MeasuredSender(client, bound, start + pace.warm_up, start + pace.warm_up + pace.seconds)
    times = times_within(pace.rate, pace.warm_up + pace.seconds, np.random.default_rng(pace.seed))
    left = zip(times, requests.bodies, strict=False)

    def plan_next() -> None:
        following = next(left, None)
        if following is None:
            all_sent.set()
        else:
            pacer.at(start + following[0], lambda due: arrive(due, following[1]))

    def arrive(due: float, body: bytes) -> None:
        sender.send(due, client.target.request(requests.method, requests.path, body), answered)
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

    A closed loop sends less when earlier requests are slow, and its latencies omit that waiting. They compare servers
    under the same load, but do not predict the latency of users.

    Args:
        client: a client with at least `connections` connections.
        requests: bytes of whole requests, as from `Requests.encoded`; several loops may share an iterator.
        connections: the number of concurrent requests.
        seconds: how long to send and measure.
        answered: receives the status and the body of each response.
    """
    start = time.perf_counter()
    bound, left = Bound(connections), iter(requests)
    sender = MeasuredSender(client, bound, start, start + seconds)

    def go_on() -> None:
        now = time.perf_counter()
        request = next(left, None) if now < start + seconds else None
        if request is not None:
            sender.send(now, request, on_answer)

    def on_answer(status: int, body: bytes) -> None:
        answered(status, body)
        go_on()

    for _ in range(connections):
        go_on()
    await bound.drained()
    sender.measured.seconds = min(seconds, time.perf_counter() - start)
    return sender.measured

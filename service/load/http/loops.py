"""One endpoint under load, in this process: as an open loop or as a closed one."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from service.load.http.client import Client
from service.load.http.sender import OK, Bound, MeasuredSender
from service.load.timing.arrivals import times_within
from service.load.timing.histogram import Histogram
from service.load.timing.measured import Measured
from service.load.timing.pacer import Pacer


class Requests(NamedTuple):
    """What to send."""

    method: str
    path: str
    bodies: Iterable[bytes]  # one for each request; a loop ends early where they end
    keep: Callable[[bytes], None] | None = None  # takes the body of each answer of status 200


class Pace(NamedTuple):
    """When to send it."""

    rate: float  # requests per second
    seconds: float  # how long to measure
    warm_up: float = 0.0  # seconds at the same rate before that, not measured
    in_flight: int = 1000  # most requests under way, waiting for a connection or for an answer
    seed: int = 0  # decides the moments


class Run(NamedTuple):
    """What an open loop brought."""

    measured: Measured  # latencies from when requests were due
    lag: Histogram  # how late the driver started them


async def open_loop(client: Client, requests: Requests, pace: Pace) -> Run:
    """Sends requests at the times of a Poisson process, whatever becomes of the earlier ones."""
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
        _keep(requests, status, body)

    plan_next()
    await all_sent.wait()
    await bound.drained()
    pacer.stop()
    return Run(sender.measured, pacer.lag)


async def closed_loop(client: Client, requests: Requests, connections: int, seconds: float = float("inf")) -> Measured:
    """Sends requests as fast as they are answered, `connections` at a time, until the bodies or seconds end.

    Latencies of a closed loop leave out the waiting of requests that were not sent because earlier ones were
    slow; they compare servers under the same load and are no promise to a user. The client must have so many
    connections.
    """
    start = time.perf_counter()
    bound, bodies = Bound(connections), iter(requests.bodies)
    sender = MeasuredSender(client, bound, start, start + seconds)

    def go_on() -> None:
        now = time.perf_counter()
        body = next(bodies, None) if now < start + seconds else None
        if body is not None:
            sender.send(now, client.target.request(requests.method, requests.path, body), answered)

    def answered(status: int, body: bytes) -> None:
        _keep(requests, status, body)
        go_on()

    for _ in range(connections):
        go_on()
    await bound.drained()
    sender.measured.seconds = min(seconds, time.perf_counter() - start)
    return sender.measured


def _keep(requests: Requests, status: int, body: bytes) -> None:
    if requests.keep is not None and status == OK:
        requests.keep(body)

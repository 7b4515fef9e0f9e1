"""Workers in this process: the whole application, its clock, chance and ids in the hands of the test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import numpy as np

from service.app import create_app
from service.compute import Compute
from service.environment import Environment
from service.settings import Settings
from service.store.base import Store

START = 1_800_000_000.0
"""Where the clocks of tests begin."""

_workers = itertools.count()


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time it was last set to."""
        return self.now


def numbered(prefix: str) -> Callable[[], str]:
    """Makes ids that nobody else makes: prefix and number."""
    numbers: Iterator[int] = itertools.count()
    return lambda: f"{prefix}-{next(numbers)}"


@asynccontextmanager
async def worker(
    store_url: str, clock: Callable[[], float] | None = None, seed: int = 1, **settings: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """The application of one worker, running; a client that calls it without a network.

    An error that the application did not expect is answered with 500, as it is over a network.
    """
    now, rng, new_id = clock or Clock(), np.random.default_rng(seed), numbered(f"w{next(_workers)}")

    def environment(store: Store, compute: Compute) -> Environment:
        return Environment(store, compute, now, rng, new_id)

    patient = {"store_timeout_seconds": 10.0} | settings  # machines that run tests may be busy
    app = create_app(Settings(store_url=store_url, host="127.0.0.1", **patient), environment)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    lifespan = app.router.lifespan_context(app)
    await lifespan.__aenter__()
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
            yield client
    finally:  # as a server does it, to which a failing test is nothing
        await lifespan.__aexit__(None, None, None)

"""Workers in the test process: the whole application, with its clock, randomness and ids set by the test."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import numpy as np

from service.app import create_app
from service.compute import Compute
from service.environment import Environment
from service.settings import Settings
from service.store.capabilities import Store
from tests.service.problem_laws import check_response

START = 1_800_000_000.0
"""Initial time of test clocks, in seconds since the epoch."""

_workers = itertools.count()


class Clock:
    """A clock that moves only when the test moves it."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the current time of this clock."""
        return self.now


def numbered(prefix: str) -> Callable[[], str]:
    """Return a factory of ids: the prefix, a hyphen and a running number, ordered as they are made."""
    numbers: Iterator[int] = itertools.count()
    return lambda: f"{prefix}-{next(numbers):04}"


@asynccontextmanager
async def worker(
    store_url: str, clock: Callable[[], float] | None = None, seed: int = 1, ids: str | None = None, **settings: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """Run the application of one worker, and yield a client that calls it without a network.

    An unexpected error in the application is answered with 500, as over a network. Each problem must obey the laws of
    `problem_laws`. Ids begin with `ids`; by default, they are unique in this process.
    """
    now, rng, new_id = clock or Clock(), np.random.default_rng(seed), numbered(ids or f"w{next(_workers)}")

    def environment(store: Store, compute: Compute) -> Environment:
        return Environment(store, compute, now, rng, new_id, store_offset=lambda: now() - time.time())

    patient = {"store_timeout_seconds": 10.0} | settings  # test machines may be busy
    app = create_app(Settings(store_url=store_url, host="127.0.0.1", **patient), environment)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    lifespan = app.router.lifespan_context(app)
    await lifespan.__aenter__()
    try:
        hooks: dict[str, list[Any]] = {"response": [check_response]}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client:
            yield client
    finally:  # the lifespan ends without the test's exception, as in a server
        await lifespan.__aexit__(None, None, None)

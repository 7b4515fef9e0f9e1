"""Workers in the test process: the whole application, with its clock, randomness and ids set by the test."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
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
    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def numbered(prefix: str) -> Callable[[], str]:
    numbers: Iterator[int] = itertools.count()
    return lambda: f"{prefix}-{next(numbers):04}"


@asynccontextmanager
async def worker(
    store_url: str, clock: Callable[[], float] | None = None, seed: int = 1, ids: str | None = None, **settings: Any
) -> AsyncIterator[httpx2.AsyncClient]:
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


class Running:
    """A worker, and the event loop of a test that is no coroutine."""

    def __init__(self, runner: asyncio.Runner, client: httpx2.AsyncClient) -> None:
        self.runner, self.client = runner, client

    def send(self, method: str, path: str, content: Any = None, **headers: str) -> httpx2.Response:
        return self.runner.run(self.client.request(method, path, content=content, headers=headers))

    def post(self, path: str, content: Any, **headers: str) -> httpx2.Response:
        """Post bytes, or an object, as JSON."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.send("POST", path, body, **{"content-type": "application/json"} | headers)


@contextmanager
def running(store_url: str, clock: Callable[[], float] | None = None, **settings: Any) -> Iterator[Running]:
    """Run a worker for all tests of a module."""
    with asyncio.Runner() as runner:
        context = worker(store_url, clock, **settings)
        yield Running(runner, runner.run(context.__aenter__()))
        runner.run(context.__aexit__(None, None, None))

"""One model that several workers serve: the cost of a decision to the workers and the store, by number of workers.

Each client gives feedback on its prediction and then predicts again, so predictions and feedback alternate, and every
worker finds new rounds of other workers before nearly every prediction.
"""

import contextlib
from collections.abc import Sequence

import httpx2
import uvloop

from benchmarks import traffic
from benchmarks.cost import Meters, read_meters
from benchmarks.server import Server, running
from benchmarks.traffic import create_model, predictions
from toolkit.load.client import Client, Target

WORKERS = (1, 2, 4)
LAG = 0.1
"""Seconds; `max_lag_seconds` of the rows of a model whose predictions may lag."""

CONNECTIONS = 16  # per worker, so that batches have the same size for any number of workers
MODEL = "hot"


def measure_hot(workers: int, n: int, lag: float = 0.0) -> Meters:
    """Measure the cost per decision over n decisions.

    Args:
        workers: number of workers.
        n: number of decisions.
        lag: `max_lag_seconds` of the model.
    """
    with running(workers) as server:
        create_model(server, MODEL, algorithm="gaptron")
        allow_lag(server, MODEL, lag)
        return cost_of_decisions(server, n)


def cost_of_decisions(server: Server, n: int, models: Sequence[str] = (MODEL,)) -> Meters:
    """Measure the cost per decision over n decisions on models in turn."""
    uvloop.run(play(server, n // 4, 99, models))
    server.wait_until_quiet()
    before = read_meters(server)
    uvloop.run(play(server, n, 1, models))
    return read_meters(server).per(before, n)


def allow_lag(server: Server, model: str, seconds: float) -> None:
    """Set `max_lag_seconds` of a model."""
    body, url = {"freshness": {"max_lag_seconds": seconds}}, f"http://127.0.0.1:{server.port}/models/{model}"
    httpx2.patch(url, json=body, headers={"If-Match": "*"}).raise_for_status()


async def play(server: Server, n: int, seed: int, models: Sequence[str] = (MODEL,)) -> traffic.Played:
    """Play n decisions on models in turn, by concurrent clients of all workers."""
    async with contextlib.AsyncExitStack() as stack:
        targets = [Target.parse(f"http://127.0.0.1:{port}") for port in server.ports]
        clients = [await stack.enter_async_context(Client(target, CONNECTIONS)) for target in targets]
        return await traffic.play(CONNECTIONS * clients, predictions(models, n, seed), in_turn=True)

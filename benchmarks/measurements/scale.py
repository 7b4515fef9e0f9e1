"""More workers and more models: throughput, and the cost of a decision to workers and store.

A decision is one prediction and its feedback. On a machine with fewer cores than processes, the throughput shows the
limit of the machine; the cost of a decision predicts the gain from an added worker with its own core.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import uvloop

from benchmarks.cost import Meters, read_meters
from benchmarks.driver import drive, post
from benchmarks.measurements.http import CONNECTIONS, D, create_model, feedback
from benchmarks.report import Row, seen
from benchmarks.server import Server, running

WORKERS, MODELS = (1, 2, 4), (1, 10, 1_000)


class Measured(NamedTuple):
    """The measurements of some decisions."""

    rate: float  # decisions per second
    cost: Meters  # per decision


def measure(server: Server, models: int, n: int, seed: int) -> Measured:
    """Measure n decisions, spread over models and workers."""
    before = read_meters(server)
    predicting, giving = uvloop.run(_decide(server, models, n, seed))
    return Measured(n / (predicting + giving), read_meters(server).per(before, n))


async def _decide(server: Server, models: int, n: int, seed: int) -> tuple[float, float]:
    made = await drive(server.ports, _predictions(models, n, seed), CONNECTIONS, keep=True)
    given = await drive(server.ports, feedback("/feedback", made.bodies), CONNECTIONS)
    return made.seconds, given.seconds


def _predictions(models: int, n: int, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    names, contexts = rng.integers(0, models, n).tolist(), rng.normal(size=(n, D)).round(4).tolist()
    bodies = ({"model": f"m{name}", "context": context} for name, context in zip(names, contexts, strict=True))
    return (post("/predict", json.dumps(body).encode()) for body in bodies)


def play(workers: int, n: int) -> dict[int, Measured]:
    """Measure one number of workers with each number of models."""
    with running(workers) as server:
        for i in range(max(MODELS)):
            create_model(server, f"m{i}", algorithm="gaptron")
        for models in MODELS:  # warms up: every worker opens every session
            measure(server, models, max(n // 4, workers * models), seed=99)
        return {models: measure(server, models, n, seed=models) for models in MODELS}


def row(workers: int, models: int, found: Measured, alone: Measured) -> Row:
    """Return a row that compares with one worker and the same number of models."""
    cost, theirs = found.cost, alone.cost
    figure = (
        f"{found.rate:,.0f} decisions/s; worker {cost.worker_seconds * 1e6:,.0f} µs, "
        f"store {cost.store_seconds * 1e6:,.0f} µs, {cost.commands:.2f} commands, {cost.bytes:,.0f} bytes"
    )
    baseline = f"{alone.rate:,.0f} decisions/s; worker {theirs.worker_seconds * 1e6:,.0f} µs"
    name = f"{workers} worker{'s' * (workers > 1)}, {models:,} model{'s' * (models > 1)}"
    return seen(name, figure, baseline, found.rate / alone.rate)


def rows(n: int = 8_000) -> list[Row]:
    """Return the table of workers and models."""
    found = {workers: play(workers, n) for workers in WORKERS}
    return [row(w, m, found[w][m], found[WORKERS[0]][m]) for w in WORKERS for m in MODELS]

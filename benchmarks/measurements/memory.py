"""Bytes of the store's memory for a model, an open prediction and a round in the log, with the recommended learner."""

from typing import NamedTuple

import httpx2
import uvloop

from benchmarks.cost import memory_used
from benchmarks.log_filler import BATCH, PIPELINES, environment, fill, open_session, predict
from benchmarks.report import Row, at_most, seen
from benchmarks.server import Server
from benchmarks.traffic import SMALL

MODELS = 200
FEW = 8
"""Predictions that a worker stores together under light load: those of requests that arrive at the same time."""

MOST_PREDICTION, MOST_ROUND = 200, 190  # bytes
WHAT = f"{SMALL}, fastcb, float32"


class Memory(NamedTuple):
    """Bytes per item, with the overhead of the store's tables."""

    model: float  # definition and counters, without predictions or a snapshot
    prediction: float
    round: float  # in the log


def measure_memory(server: Server, n: int = 100_000, together: int = BATCH) -> Memory:
    """Create models, then n predictions, then n rounds, and measure how much memory each step adds.

    Args:
        server: the service.
        n: predictions and rounds.
        together: predictions that are stored together.
    """
    names = [f"memory-{together}-{i}" for i in range(MODELS)]
    _create(server, f"memory-{together}-warm")
    before = memory_used(server)
    for name in names:
        _create(server, name)
    models = memory_used(server) - before
    predictions, rounds = uvloop.run(_fill(server, names[0], n, together))
    return Memory(models / MODELS, predictions / n, rounds / n)


def memory_rows(server: Server, n: int) -> list[Row]:
    """Return the rows for memory in the store."""
    memory, few = measure_memory(server, n), measure_memory(server, n // 2, FEW)
    rows = [
        at_most(f"memory of an open prediction, {WHAT}", memory.prediction, MOST_PREDICTION, "bytes", 1.0),
        at_most(f"memory of a round in the log, {WHAT}", memory.round, MOST_ROUND, "bytes", 1.0),
    ]
    return [
        seen("memory of a model", f"{memory.model:,.0f} bytes"),
        *(row._replace(travels=False) for row in rows),
        seen(f"memory of an open prediction, {FEW} stored together", f"{few.prediction:,.0f} bytes"),
        seen(f"memory of a round in the log, {FEW} stored together", f"{few.round:,.0f} bytes"),
    ]


def _create(server: Server, name: str) -> None:
    body = {
        "name": name,
        "labels": [f"label-{k}" for k in range(SMALL.K)],
        "features": {"kind": "dense", "size": SMALL.d, "precision": "float32"},
        "learner": "fastcb",
        "retain_rounds": 10**9,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()


async def _fill(server: Server, name: str, n: int, together: int) -> tuple[int, int]:
    """Return the bytes that n predictions add, and the bytes that n rounds add."""
    async with environment(server) as world:
        session = await open_session(world, name)
        await fill(world, session, 4 * PIPELINES * BATCH, together)  # the connections allocate their buffers
        before = memory_used(server)
        await predict(session, n, seed=1, together=together)
        between = memory_used(server)
        await fill(world, session, n, together)
        return between - before, memory_used(server) - between

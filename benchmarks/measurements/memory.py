"""Bytes of the store's memory for a model, an open prediction and a round in the log."""

from typing import NamedTuple

import uvloop

from benchmarks.cost import memory_used
from benchmarks.log_filler import BATCH, PIPELINES, environment, fill, open_session, predict
from benchmarks.measurements.http import create_model
from benchmarks.server import Server

MODELS = 200
_NAME = "memory-0"


class Memory(NamedTuple):
    """Bytes per item, with the overhead of the store's tables."""

    model: float  # definition and counters, without predictions or a snapshot
    prediction: float
    round: float  # in the log


def measure_memory(server: Server, n: int = 100_000) -> Memory:
    """Create models, then n predictions, then n rounds, and measure how much memory each step adds."""
    create_model(server, "memory-warm", algorithm="gaptron")
    before = memory_used(server)
    for i in range(MODELS):
        create_model(server, f"memory-{i}", algorithm="gaptron")
    models = memory_used(server) - before
    predictions, rounds = uvloop.run(_fill(server, n))
    return Memory(models / MODELS, predictions / n, rounds / n)


async def _fill(server: Server, n: int) -> tuple[int, int]:
    """Return the bytes that n predictions add, and the bytes that n rounds add."""
    async with environment(server) as world:
        session = await open_session(world, _NAME)
        await fill(world, session, 4 * PIPELINES * BATCH)  # the connections allocate their buffers
        before = memory_used(server)
        await predict(session, n, seed=1)
        between = memory_used(server)
        await fill(world, session, n)
        return between - before, memory_used(server) - between

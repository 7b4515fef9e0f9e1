"""Ten thousand models in one store, a thousand of them active: throughput, and memory of a worker and of the store."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import httpx2
import numpy as np
import uvloop

from benchmarks.cost import memory_used
from benchmarks.report import Row, at_least, at_most, seen
from benchmarks.server import Server, running
from benchmarks.traffic import CONNECTIONS, SMALL, drive, feedback, predictions

MODELS, ACTIVE, ROUNDS = 10_000, 1_000, 20_000
CACHE_BYTES = 2**24
"""Too little for the active models, so that sessions are dropped and loaded again."""


def create_models(server: Server, n: int) -> None:
    """Create n models with the recommended learner."""
    labels = [f"label-{k}" for k in range(SMALL.K)]
    bodies = (
        {"name": f"model-{i}", "labels": labels, "features": {"kind": "dense", "size": SMALL.d}} for i in range(n)
    )
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        for body in bodies:
            client.post("/models", json=body).raise_for_status()


def play(server: Server, models: Sequence[int], seed: int) -> float:
    """Predict once for each of these models, then give the feedback; return the rounds per second."""
    asked = predictions([f"model-{i}" for i in models], len(models), seed)
    predicted = uvloop.run(drive(server.port, asked, CONNECTIONS))
    heard = uvloop.run(drive(server.port, feedback(predicted.answers), CONNECTIONS))
    return len(models) / (predicted.seconds + heard.seconds)


def resident_bytes(server: Server) -> int:
    """Return the resident memory of the first worker."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.pids[0]}/status").read_text())
    return 1024 * int(kilobytes)


def rows(models: int = MODELS, active: int = ACTIVE, n: int = ROUNDS) -> list[Row]:
    """Return the table of many models."""
    rng = np.random.default_rng(1)
    with mock.patch.dict(os.environ, WAGER_CACHE_BYTES=str(CACHE_BYTES)), running() as server:
        empty = memory_used(server)
        create_models(server, models)
        created = memory_used(server)
        play(server, [0] * (n // 4), 1)
        alone = play(server, [0] * n, 2)
        before = resident_bytes(server)
        some = rng.integers(0, active, n).tolist()
        many = play(server, some, 3)
        for start in range(0, models, n):
            play(server, range(start, min(start + n, models)), 4)
        grown = (resident_bytes(server) - before) / 2**20
        page = httpx2.get(f"http://127.0.0.1:{server.port}/models", params={"limit": 100})
    limit, share = CACHE_BYTES / 2**20, f"{active:,} of {models:,} models"
    return [
        at_least(f"rounds/s over {share}, 1 worker, vs. one model", many, alone, "rounds/s", 0.3),
        at_most(f"growth of a worker over {models:,} models, vs. its cache limit", grown, limit, "MiB", 2.0),
        seen("memory of a new model in the store", f"{(created - empty) / models:,.0f} bytes"),
        seen(f"a page of 100 of {models:,} models", f"{page.elapsed.total_seconds() * 1e3:.0f} ms"),
    ]

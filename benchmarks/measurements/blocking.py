"""Latencies of a small model while the same worker folds and snapshots a large one.

Requests are sent at fixed times, whether or not earlier ones were answered, and latencies count from those times. So
the time that requests wait for a blocked event loop counts.
"""

import asyncio
import json
import time
from collections.abc import Iterator

import numpy as np
import uvloop

from benchmarks.report import Row, at_most, print_rows
from benchmarks.server import Server, running
from benchmarks.traffic import SMALL, Shape, ask, create_model, post, predictions
from toolkit.load.client import Client, Target

LARGE = Shape(10, 400)  # K·d = 4,000: dense SOBA keeps 128 MB
PER_SECOND, BATCH = 100, 16
SNAPSHOT_AGE = -27.0  # seconds; the size of the state adds to it: about one snapshot every five seconds


def client_of(server: Server) -> Client:
    """Return a client with enough connections that no request waits for one."""
    return Client(Target.parse(f"http://127.0.0.1:{server.port}"), PER_SECOND, timeout=300.0)


async def latencies(client: Client, requests: Iterator[bytes], seconds: float) -> list[float]:
    """Send `PER_SECOND` requests a second at fixed times. Return the seconds until each answer."""
    started = time.perf_counter() + 0.01

    async def one(i: int) -> float:
        due = started + i / PER_SECOND
        await asyncio.sleep(due - time.perf_counter())
        await ask(client, next(requests))
        return time.perf_counter() - due

    return list(await asyncio.gather(*(one(i) for i in range(int(seconds * PER_SECOND)))))


async def teach(client: Client, name: str) -> None:
    """Predict with the large model and give it feedback, until cancelled."""
    contexts = LARGE.contexts(BATCH, seed=1)
    while True:
        made = json.loads(await ask(client, post("/predict/batch", _json(model=name, contexts=contexts))))
        said = [{"prediction_id": each["prediction_id"], "correct": True} for each in made["predictions"]]
        await ask(client, post("/feedback/batch", _json(feedback=said)))


def _json(**body: object) -> bytes:
    return json.dumps(body).encode()


async def compare(server: Server, seconds: float) -> tuple[list[float], list[float]]:
    """Return the small model's latencies, alone and alongside the large model, measured alternately."""
    quiet, alongside = list[float](), list[float]()
    async with client_of(server) as client:
        for seed in range(3):
            requests = predictions(["small"], int(seconds * PER_SECOND), seed)
            quiet += await latencies(client, requests, seconds)
            teaching = asyncio.create_task(teach(client, "large"))
            requests = predictions(["small"], int(seconds * PER_SECOND), seed)
            alongside += await latencies(client, requests, seconds)
            teaching.cancel()
            await asyncio.wait([teaching])
            if not teaching.cancelled():
                teaching.result()
    return quiet, alongside


def rows(seconds: float = 6.0) -> list[Row]:
    """Return the table of latencies."""
    with running(snapshot_age=SNAPSHOT_AGE) as server:
        create_model(server, "small", SMALL, algorithm="gaptron")
        create_model(server, "large", LARGE, algorithm="soba")
        quiet, alongside = uvloop.run(compare(server, seconds))
    return [
        at_most(
            f"a small model's p{share:.0%} alongside SOBA, K·d = 4,000".replace("%", ""),
            float(np.quantile(alongside, share)) * 1000,
            float(np.quantile(quiet, share)) * 1000,
            "ms",
            3.0,
        )
        for share in (0.5, 0.99)
    ]


if __name__ == "__main__":
    print_rows("Nothing blocks", rows())

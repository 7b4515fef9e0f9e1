"""The longest standstill of a worker's event loop under load, with its cause, from its start on."""

import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import uvloop

from benchmarks.report import Row, at_most, print_rows
from benchmarks.server import Server, running
from benchmarks.traffic import CONNECTIONS, SMALL, create_model, feedback_bodies, prediction_bodies
from toolkit.load.client import Client, Target
from toolkit.load.loops import Pace, Requests, open_loop

MODEL = "standstill"
RATE = 1_000  # predictions a second, and as much feedback
SLICE_SECONDS = 1.5
WANTED_MS = 50.0


def longest(server: Server) -> dict[str, Any]:
    """Return the longest standstill since the last call."""
    found: dict[str, Any] = httpx2.post(f"http://127.0.0.1:{server.port}/bench/standstill").raise_for_status().json()
    return found


async def load(server: Server, bodies: Iterator[bytes], seed: int) -> None:
    """Make predictions for half a slice, then give feedback for all of them."""
    async with Client(Target.parse(f"http://127.0.0.1:{server.port}"), CONNECTIONS) as client:
        pace, answers = Pace(RATE, SLICE_SECONDS / 2, seed=seed), list[bytes]()
        await open_loop(client, Requests("POST", "/predict", bodies, answers.append), pace)
        await open_loop(client, Requests("POST", "/feedback", feedback_bodies(answers)), pace)


def rows(seconds: float = 60.0) -> list[Row]:
    """Return the longest standstills of the first slice after a start, and of the rest."""
    with running() as server:
        longest(server)
        create_model(server, MODEL, SMALL, algorithm="fastcb")
        bodies = itertools.cycle(prediction_bodies([MODEL], 1_000, 1))
        uvloop.run(load(server, bodies, 0))
        first, worst, seed = longest(server), {"seconds": -math.inf}, 1
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            uvloop.run(load(server, bodies, seed))
            worst, seed = max(worst, longest(server), key=lambda each: each["seconds"]), seed + 1
    when = f"{2 * RATE:,} requests/s for {seconds:,.0f} s"
    return [_row(f"the first {SLICE_SECONDS:g} s after a start", first), _row(when, worst)]


def _row(when: str, found: dict[str, Any]) -> Row:
    row = at_most(f"longest standstill, {when}", 1000 * found["seconds"], WANTED_MS, "ms", 1.0)
    return row._replace(figure=f"{row.figure}: {found['cause']}", travels=False)


if __name__ == "__main__":
    print_rows("Standstills", rows())

"""Requests per second of one worker, and its processor time per request, compared with two do-nothing baselines.

One baseline is a do-nothing route of the same application, the other a plain FastAPI application in its own process.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import numpy as np
import uvloop

from benchmarks.do_nothing import PREFIX
from benchmarks.driver import Outcome, drive, post
from benchmarks.report import Row, at_least, seen
from benchmarks.server import Server, running, running_plain

CONNECTIONS, K, D = 32, 10, 20
REPEATS = 5
PLAIN = "plain"


class Shape(NamedTuple):
    """The size of a model and the kind of its contexts."""

    K: int
    d: int
    nonzeros: int | None  # per context; None if contexts are dense

    def __str__(self) -> str:
        return f"K={self.K}, d={self.d}" + (f", {self.nonzeros} non-zeros" if self.nonzeros else "")

    def contexts(self, n: int, seed: int) -> list[Any]:
        """Return n contexts as a client sends them."""
        rng = np.random.default_rng(seed)
        if self.nonzeros is None:
            dense: list[Any] = rng.normal(size=(n, self.d)).round(4).tolist()
            return dense
        rows = (
            (rng.choice(self.d, self.nonzeros, replace=False, shuffle=False), rng.normal(size=self.nonzeros))
            for _ in range(n)
        )
        return [{"indices": indices.tolist(), "values": values.round(4).tolist()} for indices, values in rows]


SMALL = Shape(K, D, None)
SHAPES = (SMALL, Shape(7, 54, None), Shape(100, 1000, None), Shape(20, 2**18, 100))


def create_model(server: Server, name: str, shape: Shape = SMALL, retain_rounds: int = 100_000, **learner: Any) -> None:
    """Create a model of that shape."""
    body = {
        "name": name,
        "labels": [f"label-{k}" for k in range(shape.K)],
        "features": {"kind": "dense" if shape.nonzeros is None else "sparse", "size": shape.d, "norm": "unit"},
        "learner": learner,
        "retain_rounds": retain_rounds,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()


def predictions(path: str, name: str, n: int, seed: int, shape: Shape = SMALL) -> Iterator[bytes]:
    """Return n requests for a prediction."""
    contexts = shape.contexts(n, seed)
    return iter([post(path, json.dumps({"model": name, "context": context}).encode()) for context in contexts])


def feedback(path: str, answers: list[bytes]) -> Iterator[bytes]:
    """Return the feedback for each prediction; one in three is right."""
    ids = [json.loads(answer)["prediction_id"] for answer in answers]
    bodies = [{"prediction_id": id_, "correct": i % 3 == 0} for i, id_ in enumerate(ids)]
    return iter([post(path, json.dumps(body).encode()) for body in bodies])


class Cost(NamedTuple):
    """The cost of one path's requests."""

    rate: float  # requests per second
    busy: float  # processor seconds of the worker per request


Costs = dict[str, Cost]
"""Costs by path; those of the plain application have the prefix `PLAIN`."""


def play(server: Server, name: str, n: int, seed: int, shape: Shape = SMALL) -> Costs:
    """Send n predictions and their feedback, each followed by the same requests to the do-nothing route."""

    async def all_paths() -> Costs:
        costs: Costs = {}
        costs["/predict"], made = await _timed(server, predictions("/predict", name, n, seed, shape), n)
        costs[PREFIX + "/predict"], _ = await _timed(server, predictions(PREFIX + "/predict", name, n, seed, shape), n)
        costs["/feedback"], _ = await _timed(server, feedback("/feedback", made.bodies), n)
        costs[PREFIX + "/feedback"], _ = await _timed(server, feedback(PREFIX + "/feedback", made.bodies), n)
        return costs

    return uvloop.run(all_paths())


def play_plain(plain: Server, name: str, n: int, seed: int, shape: Shape = SMALL) -> Costs:
    """Send n predictions and their feedback to the plain application."""

    async def both_paths() -> Costs:
        predicting, made = await _timed(plain, predictions("/predict", name, n, seed, shape), n)
        giving, _ = await _timed(plain, feedback("/feedback", made.bodies), n)
        return {PLAIN + "/predict": predicting, PLAIN + "/feedback": giving}

    return uvloop.run(both_paths())


async def _timed(server: Server, requests: Iterator[bytes], n: int) -> tuple[Cost, Outcome]:
    before = server.busy_seconds()
    outcome = await drive(server.port, requests, CONNECTIONS, keep=True)
    return Cost(outcome.rate, (server.busy_seconds() - before) / n), outcome


def rows(n: int = 4_000) -> list[Row]:
    """Return the table of the HTTP paths."""
    table: list[Row] = []
    with running() as server, running_plain() as plain:
        for i, shape in enumerate(SHAPES):
            name, requests = f"bench-{i}", n // 4 if shape.d == 1000 else n
            create_model(server, name, shape, algorithm="gaptron")

            def both(count: int, seed: int, name: str = name, shape: Shape = shape) -> Costs:
                return play(server, name, count, seed, shape) | play_plain(plain, name, count, seed, shape)

            both(requests // 5, 99)  # warms up
            runs = [both(requests, seed) for seed in range(REPEATS)]
            for path in ("/predict", "/feedback"):
                table += _rows(f"POST {path}, {shape}", path, runs)
    return table


def _rows(what: str, path: str, runs: list[Costs]) -> list[Row]:
    """Return the rows of one path. A ratio is the median over the runs' ratios, because other load comes and goes."""

    def median(read: Callable[[Costs], float]) -> float:
        return float(np.median([read(run) for run in runs]))

    def rate_row(what: str, baseline: str) -> Row:
        ratio = median(lambda run: run[path].rate / run[baseline].rate)
        rates = median(lambda run: run[path].rate), median(lambda run: run[baseline].rate)
        return at_least(what, *rates, "/s", 0.9)._replace(ratio=ratio, met=ratio >= 0.9)

    do_nothing = PREFIX + path
    busy, least_busy = median(lambda run: run[path].busy), median(lambda run: run[do_nothing].busy)
    busy_ratio = median(lambda run: run[path].busy / (run[do_nothing].busy or math.nan))  # 0 is less than a tick
    return [
        rate_row(what, do_nothing),
        seen(f"{what}, worker", f"{busy * 1e6:,.0f} µs", f"{least_busy * 1e6:,.0f} µs", busy_ratio),
        rate_row(f"{what}, vs. a plain FastAPI application", PLAIN + path)._replace(wanted="", met=True),
    ]


if __name__ == "__main__":
    from benchmarks.report import print_rows

    print_rows("HTTP", rows())

"""Requests per second of one worker, and its time for each, beside routes with the same models that do nothing."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import numpy as np
import uvloop

from benchmarks.driver import Outcome, drive, post
from benchmarks.report import Row, at_least
from benchmarks.server import Server, running

CONNECTIONS, K, D = 32, 10, 20
REPEATS = 5


class Shape(NamedTuple):
    """The size of a model, and what its contexts are like."""

    K: int
    d: int
    nonzeros: int | None  # in each context; None where contexts are dense

    def __str__(self) -> str:
        return f"K={self.K}, d={self.d}" + (f", {self.nonzeros} non-zeros" if self.nonzeros else "")

    def contexts(self, n: int, seed: int) -> list[Any]:
        """N contexts as a client sends them."""
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
    """Makes a model of that shape."""
    body = {
        "name": name,
        "labels": [f"label-{k}" for k in range(shape.K)],
        "features": {"kind": "dense" if shape.nonzeros is None else "sparse", "size": shape.d, "norm": "unit"},
        "learner": learner,
        "retain_rounds": retain_rounds,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()


def predictions(path: str, name: str, n: int, seed: int, shape: Shape = SMALL) -> Iterator[bytes]:
    """N requests for a prediction."""
    contexts = shape.contexts(n, seed)
    return iter([post(path, json.dumps({"model": name, "context": context}).encode()) for context in contexts])


def feedback(path: str, answers: list[bytes]) -> Iterator[bytes]:
    """Feedback for each prediction; one in three is right."""
    ids = [json.loads(answer)["prediction_id"] for answer in answers]
    bodies = [{"prediction_id": id_, "correct": i % 3 == 0} for i, id_ in enumerate(ids)]
    return iter([post(path, json.dumps(body).encode()) for body in bodies])


class Cost(NamedTuple):
    """What a path's requests took."""

    rate: float  # requests per second
    busy: float  # seconds on a processor that the worker took for each


def play(server: Server, name: str, n: int, seed: int, shape: Shape = SMALL) -> dict[str, Cost]:
    """N predictions and their feedback, and the same requests to the floor, one after the other."""

    async def all_of_it() -> dict[str, Cost]:
        async def timed(requests: Iterator[bytes], keep: bool = False) -> tuple[Cost, Outcome]:
            before = server.busy_seconds()
            outcome = await drive(server.port, requests, CONNECTIONS, keep)
            return Cost(outcome.rate, (server.busy_seconds() - before) / n), outcome

        costs: dict[str, Cost] = {}
        costs["/predict"], made = await timed(predictions("/predict", name, n, seed, shape), keep=True)
        costs["/floor/predict"], _ = await timed(predictions("/floor/predict", name, n, seed, shape), keep=True)
        costs["/feedback"], _ = await timed(feedback("/feedback", made.bodies))
        costs["/floor/feedback"], _ = await timed(feedback("/floor/feedback", made.bodies))
        return costs

    return uvloop.run(all_of_it())


def rows(n: int = 4_000) -> list[Row]:
    """The table of the HTTP paths."""
    table: list[Row] = []
    with running() as server:
        for i, shape in enumerate(SHAPES):
            name, requests = f"bench-{i}", n // 4 if shape.d == 1000 else n
            create_model(server, name, shape, algorithm="gaptron")
            play(server, name, requests // 5, 99, shape)
            runs = [play(server, name, requests, seed, shape) for seed in range(REPEATS)]
            for path in ("/predict", "/feedback"):
                table += _rows(f"POST {path}, {shape}", path, runs)
    return table


def _rows(what: str, path: str, runs: list[dict[str, Cost]]) -> list[Row]:
    """Rates and times on a processor; the ratio is the median of the runs' ratios, for other work comes and goes."""

    def median(read: Callable[[dict[str, Cost]], float]) -> float:
        return float(np.median([read(run) for run in runs]))

    floor = "/floor" + path
    rate, floor_rate = median(lambda run: run[path].rate), median(lambda run: run[floor].rate)
    ratio = median(lambda run: run[path].rate / run[floor].rate)
    busy, floor_busy = median(lambda run: run[path].busy), median(lambda run: run[floor].busy)
    busy_ratio = median(lambda run: run[path].busy / (run[floor].busy or math.nan))  # less than a tick
    return [
        at_least(what, rate, floor_rate, "/s", 0.9)._replace(ratio=ratio, met=ratio >= 0.9),
        Row(what + ", worker", f"{busy * 1e6:,.0f} µs", f"{floor_busy * 1e6:,.0f} µs", busy_ratio, "", True),
    ]


if __name__ == "__main__":
    from benchmarks.report import print_rows

    print_rows("HTTP", rows())

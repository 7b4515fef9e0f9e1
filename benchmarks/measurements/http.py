"""Requests per second of one worker, and its processor time per request, compared with two baselines that do nothing.

One baseline is a plain FastAPI application, the other an ASGI application without a framework. The own driver and wrk
measure all three in turn.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import httpx2
import numpy as np
import uvloop

from benchmarks import wrk
from benchmarks.driver import drive, post
from benchmarks.report import Row, at_least, seen
from benchmarks.server import Server, running, running_baseline

CONNECTIONS, K, D = 32, 10, 20
REPEATS = 5
WRK_SECONDS = 3


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


def prediction_bodies(name: str, n: int, seed: int, shape: Shape = SMALL) -> list[bytes]:
    """Return the bodies of n requests for a prediction."""
    return [json.dumps({"model": name, "context": context}).encode() for context in shape.contexts(n, seed)]


def predictions(path: str, name: str, n: int, seed: int, shape: Shape = SMALL) -> Iterator[bytes]:
    """Return n requests for a prediction."""
    return iter([post(path, body) for body in prediction_bodies(name, n, seed, shape)])


def feedback_bodies(ids: Sequence[str]) -> list[bytes]:
    """Return the feedback for each prediction; one in three is right."""
    return [json.dumps({"prediction_id": id_, "correct": i % 3 == 0}).encode() for i, id_ in enumerate(ids)]


def feedback(path: str, answers: list[bytes]) -> Iterator[bytes]:
    """Return the feedback for each prediction; one in three is right."""
    ids = [json.loads(answer)["prediction_id"] for answer in answers]
    return iter([post(path, body) for body in feedback_bodies(ids)])


class Cost(NamedTuple):
    """The cost of one path's requests."""

    rate: float  # requests per second
    busy: float  # processor seconds of the worker per request


Costs = dict[str, dict[str, Cost]]
"""Costs of the service and of the baselines, by path and name."""

SERVICE = "service"


class Wanted(NamedTuple):
    """The required ratios."""

    of_fastapi: float
    of_asgi: float | None


class Case(NamedTuple):
    """A model to measure."""

    shape: Shape
    algorithm: str
    wanted: Wanted

    def __str__(self) -> str:
        return f"{self.shape}, {self.algorithm}"


CASES = [Case(SMALL, name, Wanted(1.6, 0.4)) for name in ("fastcb", "gaptron")] + [
    Case(shape, "gaptron", Wanted(1.2, None)) for shape in SHAPES[1:]
]


def by_own_driver(servers: dict[str, Server], name: str, n: int, seed: int, shape: Shape) -> Costs:
    """Send n predictions and their feedback to each server in turn."""

    async def all_paths() -> Costs:
        costs: Costs = {"/predict": {}, "/feedback": {}}
        answers = list[bytes]()
        for each, server in servers.items():
            costs["/predict"][each], bodies = await _timed(server, predictions("/predict", name, n, seed, shape), n)
            answers = answers or bodies  # the service is the first
        for each, server in servers.items():
            costs["/feedback"][each], _ = await _timed(server, feedback("/feedback", answers), n)
        return costs

    return uvloop.run(all_paths())


async def _timed(server: Server, requests: Iterator[bytes], n: int) -> tuple[Cost, list[bytes]]:
    before = server.busy_seconds()
    outcome = await drive(server.port, requests, CONNECTIONS, keep=True)
    return Cost(outcome.rate, (server.busy_seconds() - before) / n), outcome.bodies


def by_wrk(servers: dict[str, Server], name: str, n: int, seed: int, shape: Shape) -> Costs:
    """Send predictions, then feedback, to each server in turn, for `WRK_SECONDS` each."""
    bodies = prediction_bodies(name, n, seed, shape)
    costs: Costs = {"/predict": {}, "/feedback": {}}
    for each, server in servers.items():
        costs["/predict"][each] = _wrk_cost(server, "/predict", bodies)
    fastest = max(cost.rate for cost in costs["/predict"].values() if cost is not costs["/predict"].get("ASGI"))
    given = feedback_bodies(_open_predictions(servers[SERVICE], name, bodies, int(2 * WRK_SECONDS * fastest)))
    for each, server in servers.items():
        costs["/feedback"][each] = _wrk_cost(server, "/feedback", given)
    return costs


def _wrk_cost(server: Server, path: str, bodies: list[bytes]) -> Cost:
    before = server.busy_seconds()
    n = wrk.requests_answered(server.port, path, bodies, CONNECTIONS, WRK_SECONDS)
    return Cost(n / WRK_SECONDS, (server.busy_seconds() - before) / n)


def _open_predictions(server: Server, name: str, bodies: list[bytes], n: int) -> list[str]:
    """Make n predictions in batches; return their ids."""
    contexts, ids = [json.loads(body)["context"] for body in bodies[:500]], list[str]()
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60.0) as client:
        while len(ids) < n:
            answer = client.post("/predict/batch", json={"model": name, "contexts": contexts}).raise_for_status()
            ids += [each["prediction_id"] for each in answer.json()["predictions"]]
    return ids


def rows(n: int = 4_000, repeats: int = REPEATS) -> list[Row]:
    """Return the table of the HTTP paths."""
    table: list[Row] = []
    drivers: dict[str, Callable[..., Costs]] = {"own driver": by_own_driver}
    if wrk.is_installed():
        drivers["wrk"] = by_wrk
    else:
        table.append(seen("the rows of wrk", "SKIPPED: wrk is not installed"))
    with running() as server, running_baseline("plain_fastapi") as plain, running_baseline("bare_asgi") as bare:
        servers = {SERVICE: server, "FastAPI": plain, "ASGI": bare}
        for i, case in enumerate(CASES):
            name, requests = f"bench-{i}", n // 4 if case.shape.d == 1000 else n
            create_model(server, name, case.shape, algorithm=case.algorithm)
            by_own_driver(servers, name, requests // 5, 99, case.shape)  # warms up
            for driver, play in drivers.items():
                runs = [play(servers, name, requests, seed, case.shape) for seed in range(repeats)]
                for path in ("/predict", "/feedback"):
                    table += _rows(f"POST {path}, {case}, {driver}", [run[path] for run in runs], case.wanted)
    return table


def _rows(what: str, runs: list[dict[str, Cost]], wanted: Wanted) -> list[Row]:
    """Return the rows of one path. A ratio is the median over the runs' ratios, because other load comes and goes."""
    table = []
    for baseline, least in (("FastAPI", wanted.of_fastapi), ("ASGI", wanted.of_asgi)):
        ratios = [run[SERVICE].rate / run[baseline].rate for run in runs]
        ours, theirs = (_median([run[each].rate for run in runs]) for each in (SERVICE, baseline))
        row = at_least(f"{what}, vs. bare {baseline}", ours, theirs, "/s", least or 0.0)
        ratio = _median(ratios)
        row = row._replace(ratio=ratio, met=ratio >= (least or 0.0), figure=f"{row.figure}, worst {min(ratios):.2f}")
        table.append(row if least else row._replace(wanted="", met=True))
    busy = [_median([run[each].busy for run in runs]) * 1e6 for each in (SERVICE, "FastAPI", "ASGI")]
    baselines = f"FastAPI {busy[1]:,.0f} µs, ASGI {busy[2]:,.0f} µs"
    ratio = _median([run["FastAPI"].busy / (run[SERVICE].busy or math.nan) for run in runs])  # 0 is less than a tick
    table.append(seen(f"{what}, a worker's time", f"{busy[0]:,.0f} µs", baselines, ratio))
    return table


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


if __name__ == "__main__":
    from benchmarks.report import print_rows

    print_rows("HTTP", rows())

"""Requests per second of `/predict` with 50 actions of 20 named features, compared with a plain FastAPI application.

The plain application validates the same body and does nothing else. Actions come from a catalogue, so they repeat. In
the second row none does.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import uvloop

from benchmarks.report import Row, at_least
from benchmarks.server import Server, running, running_baseline
from benchmarks.traffic import drive, post

CONNECTIONS, ACTIONS, REPEATS = 32, 50, 5
CATALOGUE = 2_000
WANTED = 1.2


def rows(n: int = 1_500) -> list[Row]:
    """Return a row for actions that repeat and one for actions that never do."""
    with running() as server, running_baseline("fastapi_with_actions") as plain:
        for name in ("catalogue", "fresh"):
            body = {"name": name, "features": {"kind": "named"}, "actions": {"features": {"kind": "named"}}}
            httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()
        what = f"POST /predict, {ACTIONS} actions of 20 named features"
        return [
            _row(server, plain, f"{what}, {CATALOGUE:,} items", "catalogue", n),
            _row(server, plain, f"{what}, all new", "fresh", n // 2)._replace(wanted="", met=True),
        ]


def _row(server: Server, plain: Server, what: str, model: str, n: int) -> Row:
    """Return the medians over pairs of runs, because other load comes and goes."""
    _rate(server, model, n // 2, 99)  # warms up, and some feedback
    pairs = [(_rate(server, model, n, seed), _rate(plain, model, n, seed)) for seed in range(REPEATS)]
    ratio = float(np.median([ours / theirs for ours, theirs in pairs]))
    ours, theirs = (float(np.median(rates)) for rates in zip(*pairs, strict=True))
    row = at_least(f"{what}, vs. a plain FastAPI application", ours, theirs, "/s", WANTED)
    return row._replace(ratio=ratio, met=ratio >= WANTED)


def _rate(server: Server, model: str, n: int, seed: int) -> float:
    outcome = uvloop.run(drive(server.port, predictions(model, n, seed), CONNECTIONS))
    if seed == 99:
        uvloop.run(drive(server.port, feedback(model, outcome.answers), CONNECTIONS))
    return outcome.rate


def predictions(model: str, n: int, seed: int) -> Iterator[bytes]:
    """Return n requests. The actions of the model `fresh` are different each time."""
    rng = np.random.default_rng(seed)
    catalogue = [_action(rng, i) for i in range(CATALOGUE)] if model != "fresh" else []
    return iter([post("/predict", json.dumps(_request(rng, model, catalogue)).encode()) for _ in range(n)])


def feedback(model: str, answers: list[bytes]) -> Iterator[bytes]:
    """Return feedback for the predictions that succeeded."""
    ids = [json.loads(answer).get("prediction_id", f"{model}:missing") for answer in answers]
    return iter([post("/feedback", json.dumps({"prediction_id": id_, "correct": True}).encode()) for id_ in ids])


def _request(rng: np.random.Generator, model: str, catalogue: list[dict[str, Any]]) -> dict[str, Any]:
    if catalogue:
        actions = [catalogue[i] for i in rng.choice(CATALOGUE, ACTIONS, replace=False)]
    else:
        actions = [_action(rng, i) for i in range(ACTIONS)]
    user = {"age": int(rng.integers(18, 90)), "country": f"c{rng.integers(50)}", "segment": f"s{rng.integers(9)}"}
    return {"model": model, "context": {"user": user, "hour": int(rng.integers(24))}, "actions": actions}


def _action(rng: np.random.Generator, i: int) -> dict[str, Any]:
    """Return an action of 20 named features: numbers, strings and a flag."""
    numbers = {f"number_{j}": round(float(rng.normal()), 3) for j in range(10)}
    words = {f"word_{j}": f"w{rng.integers(1000)}" for j in range(9)}
    return {"id": f"item-{i}", "features": numbers | words | {"new": bool(rng.integers(2))}}

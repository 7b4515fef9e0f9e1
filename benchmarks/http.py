"""Requests per second of one worker, beside routes with the same models that do nothing."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import uvloop

from benchmarks.driver import Outcome, drive, post
from benchmarks.report import Row, at_least
from benchmarks.server import Server, running

CONNECTIONS, K, D = 32, 10, 20
REPEATS = 5


def create_model(server: Server, name: str, **learner: Any) -> None:
    """Makes a dense model with K labels and d features."""
    body = {
        "name": name,
        "labels": [f"label-{k}" for k in range(K)],
        "features": {"kind": "dense", "size": D, "norm": "unit"},
        "learner": learner,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()


def predictions(path: str, name: str, n: int, seed: int) -> Iterator[bytes]:
    """N requests for a prediction."""
    contexts = np.random.default_rng(seed).normal(size=(n, D)).round(4).tolist()
    return (post(path, json.dumps({"model": name, "context": context}).encode()) for context in contexts)


def feedback(path: str, answers: list[bytes]) -> Iterator[bytes]:
    """Feedback for each prediction; one in three is right."""
    ids = [json.loads(answer)["prediction_id"] for answer in answers]
    return (post(path, json.dumps({"prediction_id": id_, "correct": i % 3 == 0}).encode()) for i, id_ in enumerate(ids))


def play(server: Server, name: str, n: int, seed: int) -> dict[str, Outcome]:
    """N predictions and their feedback, and the same requests to the floor, one after the other."""

    async def all_of_it() -> dict[str, Outcome]:
        made = await drive(server.port, predictions("/predict", name, n, seed), CONNECTIONS, keep=True)
        return {
            "/predict": made,
            "/floor/predict": await drive(
                server.port, predictions("/floor/predict", name, n, seed), CONNECTIONS, keep=True
            ),
            "/feedback": await drive(server.port, feedback("/feedback", made.bodies), CONNECTIONS),
            "/floor/feedback": await drive(server.port, feedback("/floor/feedback", made.bodies), CONNECTIONS),
        }

    return uvloop.run(all_of_it())


def median_rates(runs: list[dict[str, Outcome]]) -> dict[str, float]:
    """The median over runs of each path's rate."""
    return {path: float(np.median([run[path].rate for run in runs])) for path in runs[0]}


def rows(n: int = 5_000) -> list[Row]:
    """The table of the HTTP paths."""
    with running() as server:
        create_model(server, "bench", algorithm="gaptron")
        play(server, "bench", n // 5, seed=99)
        rates = median_rates([play(server, "bench", n, seed) for seed in range(REPEATS)])
    return [
        at_least(f"POST {path}, 1 worker, {CONNECTIONS} connections", rates[path], rates["/floor" + path], "/s", 0.75)
        for path in ("/predict", "/feedback")
    ]

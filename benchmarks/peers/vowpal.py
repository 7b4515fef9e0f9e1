"""The usual home-made service: FastAPI with Vowpal Wabbit in the same process. It stores nothing.

A prediction stays in a dictionary, so feedback that is sent twice is learned twice.
"""

import importlib
import uuid
from typing import Any

import numpy as np
from fastapi import FastAPI

from benchmarks.peers.bodies import FeedbackBody, PredictBody, answer

LABELS = 10


def create_app() -> FastAPI:
    """Create the application. It supports one worker, because its state is in the process."""
    app, rng = FastAPI(), np.random.default_rng()
    pyvw: Any = importlib.import_module("vowpalwabbit.pyvw")  # without types
    workspace = pyvw.Workspace(f"--cb_explore {LABELS} --quiet")
    made: dict[str, tuple[str, int, float]] = {}
    updates = [0]

    @app.post("/predict")
    async def predict(body: PredictBody) -> dict[str, Any]:
        line = "| " + " ".join(f"x{i}:{x}" for i, x in enumerate(body.context))
        probabilities = workspace.predict(line)
        label = min(int(np.searchsorted(np.cumsum(probabilities), rng.random())), LABELS - 1)
        prediction_id = f"{body.model}:{uuid.uuid4().hex}"
        made[prediction_id] = line, label, probabilities[label]
        return answer(prediction_id, body.model, label, probabilities[label], updates[0])

    @app.post("/feedback")
    async def feedback(body: FeedbackBody) -> dict[str, Any]:
        line, label, chance = made[body.prediction_id]
        workspace.learn(f"{label + 1}:{-float(body.correct)}:{chance} {line}")
        updates[0] += 1
        return {"prediction_id": body.prediction_id, "correct": body.correct, "round": updates[0]}

    @app.get("/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        return {"name": name, "rounds_seen": updates[0]}

    return app

"""Every learner of the registry, behind predict and feedback."""

import httpx2
import numpy as np
import pytest

from learners.registry import LEARNERS
from tests.service.workers import worker

LABELS = ["a", "b", "c"]


async def played(client: httpx2.AsyncClient, name: str, algorithm: str) -> None:
    """Forty rounds, whose truth is the largest of three numbers."""
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": name, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}}
    assert (await client.post("/models", json=body)).status_code == 201
    for context in np.random.default_rng(5).uniform(-1.0, 1.0, size=(40, 3)):
        request = {"model": name, "context": context.tolist(), "include_distribution": True}
        answer = (await client.post("/predict", json=request)).json()
        assert sum(answer["distribution"].values()) == pytest.approx(1.0)
        assert answer["distribution"][answer["label"]] == answer["propensity"] > 0.0
        truth = {"prediction_id": answer["prediction_id"], "true_label": LABELS[context.argmax()]}
        response = await client.post("/feedback", json=truth)
        assert response.json()["status"] == "recorded", response.text


@pytest.mark.parametrize("algorithm", sorted(LEARNERS))
async def test_every_learner_is_served(client: httpx2.AsyncClient, store_url: str, name: str, algorithm: str) -> None:
    """It predicts with true propensities, learns from each feedback, and is the same on another worker."""
    await played(client, name, algorithm)
    request = {"model": name, "context": [0.2, -0.5, 0.8], "include_distribution": True}
    here = (await client.post("/predict", json=request)).json()
    async with worker(store_url) as other:
        there = (await other.post("/predict", json=request)).json()
    assert here["rounds_seen"] == there["rounds_seen"] == 40
    assert there["distribution"] == pytest.approx(here["distribution"], abs=1e-12)

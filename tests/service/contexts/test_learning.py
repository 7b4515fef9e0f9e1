"""What the default model learns from contexts as clients have them: nothing, raw columns, named features."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import FloatArray, IntArray
from learners.registry import ALL_LEARNERS
from tests.service.sample_models import post, slug_of

LABELS = ["a", "b", "c"]
BATCH = 20


async def play(
    client: httpx2.AsyncClient, name: str, contexts: list[Any], chances: FloatArray, **features: Any
) -> IntArray:
    """Create a model with the default learner, play rounds in small batches, and return the answered labels.

    Each label is right with its own probability in each round (n, 3).
    """
    await post(client, "/models", **{"name": name, "labels": LABELS} | ({"features": features} if features else {}))
    answers, rng = list[int](), np.random.default_rng(3)
    for start in range(0, len(contexts), BATCH):
        batch = contexts[start : start + BATCH]
        made = (await post(client, "/predict/batch", model=name, contexts=batch))["predictions"]
        labels = [LABELS.index(each["label"]) for each in made]
        right = rng.random(len(batch)) < chances[np.arange(start, start + len(batch)), labels]
        pairs = zip(made, right.tolist(), strict=True)
        feedback = [{"prediction_id": each["prediction_id"], "correct": correct} for each, correct in pairs]
        await post(client, "/feedback/batch", feedback=feedback)
        answers += labels
    return np.array(answers)


async def test_a_model_without_features_learns(client: httpx2.AsyncClient, name: str) -> None:
    """Plain A/B/C: each label is right with its own probability, and the best one gets most of the traffic."""
    answers = await play(client, name, [{}] * 1500, np.tile([0.1, 0.2, 0.5], (1500, 1)))
    assert (answers[-500:] == 2).sum() >= 400
    model = (await client.get(f"/models/{name}")).json()
    assert model["features"] == {"kind": "none", "size": 0, "norm": "none", "norm_bound": 1.0, "intercept": True}


@pytest.mark.parametrize("algorithm", sorted(name for name, cls in ALL_LEARNERS.items() if cls.intercept))
async def test_every_learner_works_without_features(client: httpx2.AsyncClient, name: str, algorithm: str) -> None:
    await post(client, "/models", name=name, labels=LABELS, learner=algorithm)
    for _ in range(3):
        answer = await post(client, "/predict", model=name)
        truth = {"true_label": "a"} if answer["label"] is not None else {"true_labels": LABELS}
        await post(client, "/feedback", prediction_id=answer["prediction_id"], **truth)
    assert (await post(client, f"/models/{name}/explain"))["rounds_seen"] == 3


async def test_no_features_need_an_intercept_and_experts_have_none(client: httpx2.AsyncClient, name: str) -> None:
    experts = {"kind": "dense", "size": 2, "intercept": True}
    for fields, slug, field in (
        ({"learner": "adahedge"}, "invalid-features", "features"),
        ({"features": {"kind": "none", "intercept": False}}, "invalid-features", "features"),
        ({"features": experts, "learner": "adahedge"}, "intercept-not-allowed", "features.intercept"),
    ):
        refused = await post(client, "/models", 422, **{"name": name, "labels": LABELS} | fields)
        assert (slug_of(refused), refused["field"]) == (slug, field)
    await post(client, "/models", name=name, labels=LABELS)
    for context in ({"a": 1}, [1.0], {"indices": [0], "values": [1.0]}):
        assert slug_of(await post(client, "/predict", 422, model=name, context=context)) == "wrong-context-length"


@pytest.mark.parametrize("kind", ["dense", "named"])
async def test_raw_age_and_income_are_learned(client: httpx2.AsyncClient, name: str, kind: str) -> None:
    """Years and a currency, as columns or by name: most answers of the third thousand are right."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(18.0, 80.0, 3000), rng.uniform(10_000.0, 200_000.0, 3000)])
    right = np.where(rows[:, 1] / 1000.0 < rows[:, 0], 0, 2)
    contexts: list[Any] = rows.tolist()
    if kind == "named":
        contexts = [{"user": {"age": age, "income": income}} for age, income in contexts]
    features = {"kind": kind} | ({"size": 2} if kind == "dense" else {})
    answers = await play(client, name, contexts, np.eye(3)[right], **features)
    assert (answers == right)[2000:].mean() >= 0.9

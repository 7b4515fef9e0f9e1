"""What the default model learns from contexts as clients have them: nothing, raw columns, named features."""

from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import FloatArray, IntArray
from learners.registry import ALL_LEARNERS
from tests.service.contexts.test_as_sent import post

LABELS = ["a", "b", "c"]
BATCH = 20


async def play(
    client: httpx2.AsyncClient, name: str, contexts: list[Any], right: IntArray, **features: Any
) -> FloatArray:
    """Create a model with the default learner, play rounds in small batches, and return which answers were right."""
    body: dict[str, Any] = {"name": name, "labels": LABELS}
    await post(client, "/models", **body | ({"features": features} if features else {}))
    correct = list[bool]()
    for start in range(0, len(contexts), BATCH):
        batch, truths = contexts[start : start + BATCH], right[start : start + BATCH]
        made = (await post(client, "/predict/batch", model=name, contexts=batch))["predictions"]
        outcome = [each["label"] == LABELS[k] for each, k in zip(made, truths, strict=True)]
        feedback = [
            {"prediction_id": each["prediction_id"], "correct": c} for each, c in zip(made, outcome, strict=True)
        ]
        await post(client, "/feedback/batch", feedback=feedback)
        correct += outcome
    return np.array(correct, np.float64)


async def test_a_model_without_features_learns(client: httpx2.AsyncClient, name: str) -> None:
    """Plain A/B/C: each label is right with its own probability, and the best one gets most of the traffic."""
    await post(client, "/models", name=name, labels=LABELS)
    model = (await client.get(f"/models/{name}")).json()
    assert model["features"] == {"kind": "none", "size": 0, "norm": "none", "norm_bound": 1.0, "intercept": True}
    chances, rng, served = {"a": 0.1, "b": 0.2, "c": 0.5}, np.random.default_rng(3), list[str]()
    for number in range(1500):
        body: dict[str, Any] = {"model": name} | ({"context": {}} if number % 2 else {})
        answer = await post(client, "/predict", **body)
        served.append(answer["label"])
        correct = bool(rng.random() < chances[answer["label"]])
        await post(client, "/feedback", prediction_id=answer["prediction_id"], correct=correct)
    assert served[-500:].count("c") >= 400


@pytest.mark.parametrize("algorithm", sorted(name for name, cls in ALL_LEARNERS.items() if cls.intercept))
async def test_every_learner_works_without_features(client: httpx2.AsyncClient, name: str, algorithm: str) -> None:
    """A constant is enough for every learner that allows one: predictions, feedback and explanations work."""
    await post(client, "/models", name=name, labels=LABELS, learner=algorithm)
    for _ in range(3):
        answer = await post(client, "/predict", model=name)
        truth = {"true_label": "a"} if answer["label"] is not None else {"true_labels": LABELS}
        await post(client, "/feedback", prediction_id=answer["prediction_id"], **truth)
    assert (await post(client, f"/models/{name}/explain"))["rounds_seen"] == 3


async def test_no_features_need_an_intercept(client: httpx2.AsyncClient, name: str) -> None:
    """Without features and intercept there is nothing to learn from; a context that is not empty is refused."""
    refused = await client.post("/models", json={"name": name, "labels": LABELS, "learner": "adahedge"})
    assert (refused.json()["type"], refused.json()["field"]) == ("urn:wager:problem:invalid-features", "features")
    features = {"kind": "none", "intercept": False}
    refused = await client.post("/models", json={"name": name, "labels": LABELS, "features": features})
    assert (refused.json()["type"], refused.json()["field"]) == ("urn:wager:problem:invalid-features", "features")
    await post(client, "/models", name=name, labels=LABELS)
    for context in ({"a": 1}, [1.0], {"indices": [0], "values": [1.0]}):
        refused = await client.post("/predict", json={"model": name, "context": context})
        assert refused.json()["type"] == "urn:wager:problem:wrong-context-length"


async def test_an_intercept_where_none_is_allowed_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """AdaHedge's features are experts, and a constant would be one more."""
    features = {"kind": "dense", "size": 2, "intercept": True}
    body = {"name": name, "labels": LABELS, "features": features, "learner": "adahedge"}
    problem = (await client.post("/models", json=body)).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:intercept-not-allowed", "features.intercept")


def people(rng: np.random.Generator, n: int) -> tuple[FloatArray, IntArray]:
    """Return n rows of age in years and income (n, 2), and the right label of each (n,)."""
    age, income = rng.uniform(18.0, 80.0, n), rng.lognormal(10.5, 0.6, n)
    return np.column_stack([age, income]), np.where(age < 35.0, 0, np.where(income < 40_000.0, 1, 2))


@pytest.mark.parametrize("seed", [0, 1])
async def test_raw_age_and_income_are_learned(client: httpx2.AsyncClient, name: str, seed: int) -> None:
    """On raw columns, at least 95 % of the third thousand of answers are right."""
    rng = np.random.default_rng(seed)
    age, income = rng.uniform(18.0, 80.0, 3000), rng.uniform(10_000.0, 200_000.0, 3000)
    right = np.where(income / 1000.0 - age < 0.0, 0, np.where(income / 1000.0 - age < 60.0, 1, 2))
    right = np.where(right == 1, 2, right)  # a threshold: two of the three labels
    correct = await play(client, name, np.column_stack([age, income]).tolist(), right, kind="dense", size=2)
    assert correct[2000:].mean() >= 0.95


async def test_units_of_columns_do_not_matter(client: httpx2.AsyncClient, name: str) -> None:
    """On columns of scales 1 to 10⁶ with offsets, accuracy is within 2 points of standardised columns."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(6000, 6))
    right = (z @ rng.normal(size=(6, 3))).argmax(axis=1)
    raw = (z + rng.uniform(-2.0, 2.0, 6)) * 10.0 ** np.arange(1, 7)
    found = [
        (await play(client, f"{name}.{i}", rows.tolist(), right, kind="dense", size=6))[3000:].mean()
        for i, rows in enumerate((raw, z))
    ]
    assert found[0] >= found[1] - 0.02


def _named(row: FloatArray) -> dict[str, Any]:
    age, income = row
    return {"user": {"age": age, "income": income}, "band": "young" if age < 35 else "old"}


async def test_named_features_are_learned(client: httpx2.AsyncClient, name: str) -> None:
    """Names, categories and raw numbers are learned from as columns are."""
    rows, right = people(np.random.default_rng(2), 3000)
    to_context: Callable[[FloatArray], dict[str, Any]] = _named
    correct = await play(client, name, list(map(to_context, rows)), right, kind="named")
    assert correct[2000:].mean() >= 0.85

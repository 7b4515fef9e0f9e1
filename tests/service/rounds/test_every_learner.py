"""Every learner of the registry, served over HTTP."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.answers import answer_kind
from learners.base import AnswerKind
from learners.registry import ALL_LEARNERS
from tests.service.workers import START, Clock, worker

LABELS = ["a", "b", "c"]
EACH_ALGORITHM = pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))


async def create(client: httpx2.AsyncClient, name: str, algorithm: str, **fields: Any) -> AnswerKind:
    """Create a model of three labels and three features; return its kind of answer."""
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": name, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}} | fields
    response = await client.post("/models", json=body)
    assert response.status_code == 201, response.text
    return answer_kind(ALL_LEARNERS[algorithm])


def truth_of(kind: AnswerKind, context: list[float]) -> dict[str, Any]:
    """Return the true feedback: the largest number's label, those of positive numbers, or all in descending order."""
    order = [LABELS[k] for k in np.argsort(-np.array(context))]
    positive = [label for label, x in zip(LABELS, context, strict=True) if x > 0.0]
    several = {"label-set": positive, "ranking": order}
    return {"true_labels": several[kind]} if kind in several else {"true_label": order[0]}


def check_answer(kind: AnswerKind, answer: dict[str, Any]) -> None:
    """Check that the answer is of its kind and its probabilities are in range and consistent."""
    label, labels, distribution = answer["label"], answer["labels"], answer["distribution"]
    assert 0.0 < answer["propensity"] <= 1.0
    if kind in ("label", "level"):
        assert labels is None
        assert sum(distribution.values()) == pytest.approx(1.0)
        assert distribution[label] == answer["propensity"]
    elif kind == "label-set":
        assert label is None
        assert labels == sorted(set(labels) & set(LABELS))
        assert all(0.0 <= chance <= 1.0 for chance in distribution.values())
        assert all(distribution[each] > 0.0 for each in labels)
    else:
        assert (label, sorted(labels), distribution) == (None, LABELS, None)


async def play(client: httpx2.AsyncClient, name: str, kind: AnswerKind) -> None:
    """Play twenty rounds."""
    for context in np.random.default_rng(5).uniform(-1.0, 1.0, size=(20, 3)).tolist():
        request = {"model": name, "context": context, "include_distribution": kind != "ranking"}
        answer = (await client.post("/predict", json=request)).json()
        check_answer(kind, answer)
        truth = {"prediction_id": answer["prediction_id"]} | truth_of(kind, context)
        response = await client.post("/feedback", json=truth)
        assert response.json()["status"] == "recorded", response.text


@EACH_ALGORITHM
async def test_every_learner_is_served(client: httpx2.AsyncClient, store_url: str, name: str, algorithm: str) -> None:
    """Each learner draws with true propensities, learns from all feedback, and has the same state on any worker."""
    kind = await create(client, name, algorithm)
    await play(client, name, kind)
    request = {"model": name, "context": [0.2, -0.5, 0.8], "include_distribution": kind != "ranking"}
    first = (await client.post("/predict", json=request)).json()
    async with worker(store_url) as other:
        second = (await other.post("/predict", json=request)).json()
    assert first["rounds_seen"] == second["rounds_seen"] == 20
    if kind != "ranking":
        assert second["distribution"] == pytest.approx(first["distribution"], abs=1e-12)


@EACH_ALGORITHM
async def test_repeated_late_and_invalid_feedback_adds_no_round(store_url: str, name: str, algorithm: str) -> None:
    """The same truth is a duplicate and another a conflict; an invalid or late one changes nothing."""
    clock, x = Clock(START), [0.6, -0.5, 0.2]
    async with worker(store_url, clock) as client:
        kind = await create(client, name, algorithm, window_seconds=60.0)
        for own in ("first", "late"):
            await client.post("/predict", json={"model": name, "context": x, "prediction_id": own})
        right, other = truth_of(kind, x), truth_of(kind, [-1.0, 1.0, -0.5])
        wrong = {"true_label": ["a"]} if kind in ("label", "level") else {"true_labels": "a"}
        swapped = {"true_labels": ["a"]} if kind in ("label", "level") else {"true_label": "a"}

        async def give(own: str, truth: dict[str, Any]) -> tuple[int, Any]:
            response = await client.post("/feedback", json={"prediction_id": f"{name}:{own}"} | truth)
            body = response.json()
            return response.status_code, body.get("field") if response.status_code == 422 else body["status"]

        for bad in (wrong, swapped):
            assert await give("first", bad) == (422, next(iter(bad)))
        assert await give("first", right) == (200, "recorded")
        assert await give("first", right) == (200, "duplicate")
        assert await give("first", other) == (409, 409)
        clock.now += 61.0
        assert await give("late", right) == (404, 404)
        model = (await client.get(f"/models/{name}")).json()
    assert (model["rounds_seen"], model["predictions"]) == (1, 2)

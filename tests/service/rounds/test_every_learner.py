"""Every learner of the registry, behind predict and feedback."""

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
    """Creates a model of three labels and as many features; what it answers."""
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": name, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}} | fields
    response = await client.post("/models", json=body)
    assert response.status_code == 201, response.text
    return answer_kind(ALL_LEARNERS[algorithm])


def truth_of(kind: AnswerKind, context: list[float]) -> dict[str, Any]:
    """Feedback: the largest of three numbers, the positive ones, or all from the largest to the smallest."""
    order = [LABELS[k] for k in np.argsort(-np.array(context))]
    positive = [label for label, x in zip(LABELS, context, strict=True) if x > 0.0]
    several = {"label-set": positive, "ranking": order}
    return {"true_labels": several[kind]} if kind in several else {"true_label": order[0]}


def check_answer(kind: AnswerKind, answer: dict[str, Any]) -> None:
    """The answer is of its kind, and its probabilities are in range and agree."""
    label, labels, told = answer["label"], answer["labels"], answer["distribution"]
    assert 0.0 < answer["propensity"] <= 1.0
    if kind in ("label", "level"):
        assert labels is None
        assert sum(told.values()) == pytest.approx(1.0)
        assert told[label] == answer["propensity"]
    elif kind == "label-set":
        assert label is None
        assert labels == sorted(set(labels) & set(LABELS))
        assert all(0.0 <= chance <= 1.0 for chance in told.values())
        assert all(told[each] > 0.0 for each in labels)
    else:
        assert (label, sorted(labels), told) == (None, LABELS, None)


async def played(client: httpx2.AsyncClient, name: str, kind: AnswerKind) -> None:
    """Forty rounds."""
    for context in np.random.default_rng(5).uniform(-1.0, 1.0, size=(40, 3)).tolist():
        request = {"model": name, "context": context, "include_distribution": kind != "ranking"}
        answer = (await client.post("/predict", json=request)).json()
        check_answer(kind, answer)
        said = {"prediction_id": answer["prediction_id"]} | truth_of(kind, context)
        response = await client.post("/feedback", json=said)
        assert response.json()["status"] == "recorded", response.text


@EACH_ALGORITHM
async def test_every_learner_is_served(client: httpx2.AsyncClient, store_url: str, name: str, algorithm: str) -> None:
    """It predicts with true propensities, learns from each feedback, and is the same on another worker."""
    kind = await create(client, name, algorithm)
    await played(client, name, kind)
    request = {"model": name, "context": [0.2, -0.5, 0.8], "include_distribution": kind != "ranking"}
    here = (await client.post("/predict", json=request)).json()
    async with worker(store_url) as other:
        there = (await other.post("/predict", json=request)).json()
    assert here["rounds_seen"] == there["rounds_seen"] == 40
    if kind != "ranking":
        assert there["distribution"] == pytest.approx(here["distribution"], abs=1e-12)


@EACH_ALGORITHM
async def test_feedback_twice_late_and_of_the_wrong_kind(store_url: str, name: str, algorithm: str) -> None:
    """The same truth again is a duplicate, another a conflict; what is no truth, or too late, changes nothing."""
    clock, x = Clock(START), [0.6, -0.5, 0.2]
    async with worker(store_url, clock) as client:
        kind = await create(client, name, algorithm, window_seconds=60.0)
        for own in ("first", "late"):
            await client.post("/predict", json={"model": name, "context": x, "prediction_id": own})
        right, other = truth_of(kind, x), truth_of(kind, [-1.0, 1.0, -0.5])
        wrong = {"true_label": ["a"]} if kind in ("label", "level") else {"true_labels": "a"}
        swapped = {"true_labels": ["a"]} if kind in ("label", "level") else {"true_label": "a"}

        async def give(own: str, said: dict[str, Any]) -> tuple[int, Any]:
            response = await client.post("/feedback", json={"prediction_id": f"{name}:{own}"} | said)
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

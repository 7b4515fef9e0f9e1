"""Every learner of the registry, served over HTTP."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.answers import answer_kind
from learners.base import AnswerKind
from learners.registry import ALL_LEARNERS
from tests.service.workers import worker

LABELS = ["a", "b", "c"]
EACH_ALGORITHM = pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))


async def create(client: httpx2.AsyncClient, name: str, algorithm: str, **fields: Any) -> AnswerKind:
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": name, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}} | fields
    response = await client.post("/models", json=body)
    assert response.status_code == 201, response.text
    return answer_kind(ALL_LEARNERS[algorithm])


def truth_of(kind: AnswerKind, context: list[float]) -> dict[str, Any]:
    order = [LABELS[k] for k in np.argsort(-np.array(context))]
    positive = [label for label, x in zip(LABELS, context, strict=True) if x > 0.0]
    several = {"label-set": positive, "ranking": order}
    if kind in several:
        return {"true_labels": several[kind]}
    return {"true_label": next(label for label in order if label != LABELS[-1])}  # which may mean to abstain


def check_answer(kind: AnswerKind, answer: dict[str, Any]) -> None:
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
    for context in np.random.default_rng(5).uniform(-1.0, 1.0, size=(20, 3)).tolist():
        request = {"model": name, "context": context, "include_distribution": kind != "ranking"}
        answer = (await client.post("/predict", json=request)).json()
        check_answer(kind, answer)
        truth = {"prediction_id": answer["prediction_id"]} | truth_of(kind, context)
        response = await client.post("/feedback", json=truth)
        assert response.json()["status"] == "recorded", response.text


@EACH_ALGORITHM
async def test_every_learner_is_served(client: httpx2.AsyncClient, store_url: str, name: str, algorithm: str) -> None:
    kind = await create(client, name, algorithm)
    await play(client, name, kind)
    request = {"model": name, "context": [0.2, -0.5, 0.8], "include_distribution": kind != "ranking"}
    first = (await client.post("/predict", json=request)).json()
    async with worker(store_url) as other:
        second = (await other.post("/predict", json=request)).json()
    assert first["rounds_seen"] == second["rounds_seen"] == 20
    if kind != "ranking":
        assert second["distribution"] == pytest.approx(first["distribution"], abs=1e-12)

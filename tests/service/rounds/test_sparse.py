"""Models with sparse contexts: the same answers as dense ones, at the cost of the non-zeros."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import FloatArray
from tests.service.sample_models import post, slug_of

SIZE, LABELS = 12, ["a", "b", "c"]
LEARNERS = [{"algorithm": "gaptron", "exploration": 0.2}, {"algorithm": "soba"}, {"algorithm": "soba-diagonal"}]


def definition(name: str, kind: str, norm: str = "scale", **more: Any) -> dict[str, Any]:
    features = {"kind": kind, "size": SIZE, "norm": norm, "norm_bound": 1.5, "intercept": False}
    return {"name": name, "labels": LABELS, "features": features, **more}


def sparse(context: FloatArray) -> dict[str, list[float]]:
    """Return a context as its non-zeros, in random order."""
    indices = np.random.default_rng(2).permutation(np.flatnonzero(context))
    return {"indices": indices.tolist(), "values": context[indices].tolist()}


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["algorithm"])
async def test_sparse_and_dense_models_agree(client: httpx2.AsyncClient, name: str, learner: dict[str, Any]) -> None:
    """Two models that learn the same rounds in different formats give the same probabilities."""
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(30, SIZE)) * (rng.random((30, SIZE)) < 1 / 3)
    contexts[:, 0] = 1.0
    for kind in ("dense", "sparse"):
        await post(client, "/models", 201, **definition(f"{name}.{kind}", kind, learner=learner))
    for context in contexts:
        forms = {"dense": context.tolist(), "sparse": sparse(context)}
        dense, other = [
            await post(client, "/predict", model=f"{name}.{kind}", context=form, include_distribution=True)
            for kind, form in forms.items()
        ]
        assert other["distribution"] == pytest.approx(dense["distribution"], abs=1e-12)
        if dense["label"] == other["label"]:  # otherwise the two would learn from different labels
            for answer in (dense, other):
                feedback = {"prediction_id": answer["prediction_id"], "correct": bool(context.sum() > 0)}
                await post(client, "/feedback", **feedback)


async def test_the_order_of_indices_does_not_matter(client: httpx2.AsyncClient, name: str) -> None:
    """The same id with the same non-zeros in another order returns the stored prediction."""
    await post(client, "/models", 201, **definition(name, "sparse"))
    first: dict[str, Any] = {"model": name, "prediction_id": "x", "context": {"indices": [7, 2], "values": [0.3, 0.4]}}
    again = {**first, "context": {"indices": [2, 7], "values": [0.4, 0.3]}}
    other = {**first, "context": {"indices": [2, 7], "values": [0.3, 0.4]}}
    answer = await post(client, "/predict", **first)
    assert await post(client, "/predict", **again) == answer
    await post(client, "/predict", 409, **other)


WRONG: list[tuple[Any, str, str]] = [
    ([0.0] * SIZE, "wrong-context-length", "context"),
    ({"indices": [1, 2], "values": [1.0]}, "wrong-context-length", "context.indices"),
    ({"indices": [SIZE], "values": [1.0]}, "wrong-context-index", "context.indices"),
    ({"indices": [3, 3], "values": [1.0, 2.0]}, "wrong-context-index", "context.indices"),
    ({"indices": [2**31], "values": [1.0]}, "out-of-range", "context.indices.0"),
    ({"indices": [1.5], "values": [1.0]}, "wrong-type", "context.indices.0"),
    ({"indices": [], "values": []}, "out-of-range", "context.indices"),
    ({"indices": [1], "values": [2.0]}, "norm-exceeded", "context"),
]


async def test_wrong_sparse_contexts_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    await post(client, "/models", 201, **definition(name, "sparse", "reject"))
    for context, slug, field in WRONG:
        problem = await post(client, "/predict", 422, model=name, context=context)
        assert (slug_of(problem), problem["field"]) == (slug, field)
    assert (await client.get(f"/models/{name}")).json()["predictions"] == 0

"""Models with sparse contexts: the same answers as dense ones, at the cost of the non-zeros."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import FloatArray

SIZE, LABELS = 12, ["a", "b", "c"]
LEARNERS = [{"algorithm": "gaptron", "exploration": 0.2}, {"algorithm": "soba"}, {"algorithm": "soba-diagonal"}]


def definition(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return the definition of a model with this kind of features."""
    features = {"kind": kind, "size": SIZE, "norm": "scale", "norm_bound": 1.5, "intercept": False} | more.pop(
        "features", {}
    )
    return {"name": name, "labels": LABELS, "features": features, **more}


def some_contexts(n: int, seed: int = 1) -> FloatArray:
    """Return contexts with about a third of their numbers non-zero, always including the first."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, SIZE)) * (rng.random((n, SIZE)) < 1 / 3)
    numbers[:, 0] = 1.0
    return numbers


def sparse(context: FloatArray, seed: int = 2) -> dict[str, list[float]]:
    """Return a context as its non-zeros, in random order."""
    indices = np.random.default_rng(seed).permutation(np.flatnonzero(context))
    return {"indices": indices.tolist(), "values": context[indices].tolist()}


async def post(client: httpx2.AsyncClient, path: str, expected: int = 200, **body: Any) -> Any:
    """Post a JSON object; return the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code == expected, response.text
    return response.json()


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["algorithm"])
async def test_sparse_and_dense_models_agree(client: httpx2.AsyncClient, name: str, learner: dict[str, Any]) -> None:
    """Two models that learn the same rounds in different formats give the same probabilities."""
    for kind in ("dense", "sparse"):
        await post(client, "/models", 201, **definition(f"{name}.{kind}", kind, learner=learner))
    for context in some_contexts(60):
        dense = await post(
            client, "/predict", model=f"{name}.dense", context=context.tolist(), include_distribution=True
        )
        other = await post(
            client, "/predict", model=f"{name}.sparse", context=sparse(context), include_distribution=True
        )
        assert other["distribution"] == pytest.approx(dense["distribution"], abs=1e-12)
        if dense["label"] == other["label"]:  # otherwise the two would learn from different labels
            correct = bool(context.sum() > 0)
            for answer in (dense, other):
                await post(client, "/feedback", prediction_id=answer["prediction_id"], correct=correct)


async def test_the_log_shows_the_non_zeros(client: httpx2.AsyncClient, name: str) -> None:
    """A logged round of a sparse model has the indices and values that were sent, in the same order."""
    await post(client, "/models", 201, **definition(name, "sparse", features={"norm": "unit", "norm_bound": 1.0}))
    answer = await post(client, "/predict", model=name, context={"indices": [7, 2], "values": [3.0, 4.0]})
    await post(client, "/feedback", prediction_id=answer["prediction_id"], correct=True)
    line = (await client.get(f"/models/{name}/rounds")).json()
    assert line["context"] == {"indices": [7, 2], "values": [3.0, 4.0]}


async def test_the_order_of_indices_does_not_matter(client: httpx2.AsyncClient, name: str) -> None:
    """The same id with the same non-zeros in another order returns the stored prediction."""
    await post(client, "/models", 201, **definition(name, "sparse"))
    first: dict[str, Any] = {"model": name, "prediction_id": "x", "context": {"indices": [7, 2], "values": [0.3, 0.4]}}
    again = {**first, "context": {"indices": [2, 7], "values": [0.4, 0.3]}}
    other = {**first, "context": {"indices": [2, 7], "values": [0.3, 0.4]}}
    answer = await post(client, "/predict", **first)
    assert await post(client, "/predict", **again) == answer
    await post(client, "/predict", 409, **other)


@pytest.mark.parametrize(
    ("context", "slug", "field"),
    [
        ([0.0] * SIZE, "wrong-context-length", "context"),
        ({"indices": [1, 2], "values": [1.0]}, "wrong-context-length", "context.indices"),
        ({"indices": [SIZE], "values": [1.0]}, "wrong-context-index", "context.indices"),
        ({"indices": [3, 3], "values": [1.0, 2.0]}, "wrong-context-index", "context.indices"),
        ({"indices": [2**31], "values": [1.0]}, "out-of-range", "context.indices.0"),
        ({"indices": [1.5], "values": [1.0]}, "wrong-type", "context.indices.0"),
        ({"indices": [], "values": []}, "out-of-range", "context.indices"),
        ({"indices": [1], "values": [2.0]}, "norm-exceeded", "context"),
    ],
)
async def test_wrong_sparse_contexts_are_refused(
    client: httpx2.AsyncClient, name: str, context: Any, slug: str, field: str
) -> None:
    """Each wrong context gets its problem type with the field's name, and nothing is stored."""
    await post(client, "/models", 201, **definition(name, "sparse", features={"norm": "reject"}))
    problem = await post(client, "/predict", 422, model=name, context=context)
    assert (problem["type"].removeprefix("urn:wager:problem:"), problem["field"]) == (slug, field)
    assert (await client.get(f"/models/{name}")).json()["predictions"] == 0

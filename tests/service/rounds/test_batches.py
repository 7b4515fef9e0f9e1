"""The HTTP contract of batches: one answer or problem for each item, in order."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import GAPTRON, LABELS, definition, some_contexts
from tests.service.workers import worker

MOST = 20
X = [0.6, 0.8, 0.0]


@pytest.fixture
def small(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    """A worker that takes batches of at most MOST items."""
    context = worker(store_url, max_batch_items=MOST)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def model(small: httpx2.AsyncClient, runner: asyncio.Runner, name: str) -> str:
    """The name of a new model."""
    assert runner.run(small.post("/models", json=definition(name))).status_code == 201
    return name


async def post(client: httpx2.AsyncClient, path: str, expected: int = 200, **body: Any) -> Any:
    """Posts an object as JSON; the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code == expected, response.text
    return response.json()


def slugs(items: list[dict[str, Any]]) -> list[str]:
    """The type of each problem, and `ok` for each answer."""
    return [item["type"].removeprefix("urn:wager:problem:") if "type" in item else "ok" for item in items]


async def counters(client: httpx2.AsyncClient, name: str) -> tuple[int, int]:
    """Rounds and predictions of a model."""
    model = (await client.get(f"/models/{name}")).json()
    return model["rounds_seen"], model["predictions"]


async def test_a_batch_of_predictions_is_as_many_predictions(small: httpx2.AsyncClient, model: str) -> None:
    """Each context is answered as by itself: a label, a propensity, an id that takes feedback."""
    contexts = some_contexts(1, MOST)
    body = await post(small, "/predict/batch", model=model, contexts=contexts, include_distribution=True)
    assert len({item["prediction_id"] for item in body["predictions"]}) == MOST
    for item in body["predictions"]:
        assert item["distribution"][item["label"]] == item["propensity"]
        await post(small, "/feedback", prediction_id=item["prediction_id"], correct=True)
    assert await counters(small, model) == (MOST, MOST)


async def test_a_wrong_context_spoils_itself_only(small: httpx2.AsyncClient, model: str) -> None:
    """What is wrong with one context is told in its place, with the field as in a request of its own."""
    contexts: list[Any] = [X, [1.0], [1.0, "2", 3.0], X, "context", None, [], [1.0, True, 2.0]]
    items = (await post(small, "/predict/batch", model=model, contexts=contexts))["predictions"]
    wrong = ["wrong-context-length", "wrong-type"]
    assert slugs(items) == ["ok", *wrong, "ok", "wrong-type", "wrong-type", "out-of-range", "wrong-type"]
    fields = [item.get("field") for item in items]
    assert fields == [None, "context", "context.1", None, "context", "context", "context", "context.1"]
    assert {item["status"] for item in items if "type" in item} == {422}
    assert await counters(small, model) == (0, 2)


async def test_ids_belong_to_their_contexts(small: httpx2.AsyncClient, model: str) -> None:
    """Given ids are used in order; one given twice is the same prediction, or a conflict with another context."""
    contexts = [X, [1.0, 0.0, 0.0], X, [0.0, 1.0, 0.0], X]
    ids = ["a", "b", "a", "a", f"{model}:c"]
    items = (await post(small, "/predict/batch", model=model, contexts=contexts, prediction_ids=ids))["predictions"]
    assert slugs(items) == ["ok", "ok", "ok", "prediction-conflict", "ok"]
    assert items[2] == items[0]
    assert [items[i]["prediction_id"] for i in (0, 1, 4)] == [f"{model}:{own}" for own in "abc"]
    assert await counters(small, model) == (0, 3)


async def test_a_wrong_id_spoils_itself_only(small: httpx2.AsyncClient, model: str) -> None:
    """An id that is none, or another model's, is told in its place; null lets the service choose."""
    ids = ["a b", None, "other:a", 7, "a:b:c"]
    items = (await post(small, "/predict/batch", model=model, contexts=[X] * 5, prediction_ids=ids))["predictions"]
    assert slugs(items) == ["invalid-name", "ok", "invalid-identifier", "wrong-type", "invalid-name"]
    assert {item["field"] for item in items if "type" in item} == {"prediction_id"}


async def test_ids_must_be_as_many_as_contexts(small: httpx2.AsyncClient, model: str) -> None:
    """A list of ids of another length fits nothing: the whole batch is refused."""
    problem = await post(small, "/predict/batch", 422, model=model, contexts=[X, X], prediction_ids=["a"])
    assert (slugs([problem]), problem["field"]) == (["invalid-identifier"], "prediction_ids")
    assert await counters(small, model) == (0, 0)


async def test_a_batch_of_predictions_for_no_model(small: httpx2.AsyncClient) -> None:
    """Every item of a batch for an unknown model says so."""
    items = (await post(small, "/predict/batch", model="nobody", contexts=[X, X]))["predictions"]
    assert slugs(items) == ["model-not-found"] * 2


async def test_a_batch_of_feedback_is_judged_one_by_one(small: httpx2.AsyncClient, model: str) -> None:
    """Recorded, duplicate, contradicting, unknown and malformed feedback have their answers side by side."""
    body = await post(small, "/predict/batch", model=model, contexts=[X, X])
    a, b = (item["prediction_id"] for item in body["predictions"])
    said: list[Any] = [
        {"prediction_id": a, "correct": True},
        {"prediction_id": a, "correct": True},
        {"prediction_id": a, "correct": False},
        {"prediction_id": f"{model}:never", "correct": True},
        {"prediction_id": "nobody:never", "correct": True},
        {"prediction_id": "no-model", "correct": True},
        {"prediction_id": b},
        {"prediction_id": b, "correct": 1},
        {"prediction_id": b, "correct": True, "reward": 1},
        "feedback",
        {"prediction_id": b, "true_label": "purple"},
        {"prediction_id": b, "correct": False},
    ]
    items = (await post(small, "/feedback/batch", feedback=said))["results"]
    refused = ["feedback-conflict", "prediction-not-found", "model-not-found", "invalid-name", "invalid-request"]
    more = ["wrong-type", "unknown-field", "wrong-type", "unknown-label", "ok"]
    assert slugs(items) == ["ok", "ok", *refused, *more]
    assert [item["status"] for item in items[:2]] == ["recorded", "duplicate"]
    assert sorted(items[i]["round"] for i in (0, 11)) == [1, 2]
    assert await counters(small, model) == (2, 2)


async def test_a_batch_of_feedback_may_concern_many_models(small: httpx2.AsyncClient, name: str) -> None:
    """Each feedback finds its own model."""
    ids = []
    for letter in "abc":
        await post(small, "/models", 201, **definition(f"{name}-{letter}", learner=GAPTRON))
        ids.append((await post(small, "/predict", model=f"{name}-{letter}", context=X))["prediction_id"])
    said = [{"prediction_id": each, "true_label": LABELS[0]} for each in ids]
    items = (await post(small, "/feedback/batch", feedback=said))["results"]
    assert [(item["prediction_id"], item["round"]) for item in items] == [(each, 1) for each in ids]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/predict/batch", {"contexts": [X] * (MOST + 1)}, "contexts"),
        ("/feedback/batch", {"feedback": [{"prediction_id": "m:a", "correct": True}] * (MOST + 1)}, "feedback"),
    ],
    ids=["predict", "feedback"],
)
async def test_a_batch_has_its_limit(
    small: httpx2.AsyncClient, model: str, path: str, body: dict[str, Any], field: str
) -> None:
    """One item more than allowed refuses the whole batch, naming the list, and nothing is done."""
    named = {"model": model} if path == "/predict/batch" else {}
    problem = await post(small, path, 422, **named, **body)
    assert (slugs([problem]), problem["field"]) == (["batch-too-large"], field)
    assert await counters(small, model) == (0, 0)
    await post(small, path, 200, **named, **{field: body[field][:-1]})


@pytest.mark.parametrize("path", ["/predict/batch", "/feedback/batch"])
async def test_an_empty_batch_is_refused(small: httpx2.AsyncClient, model: str, path: str) -> None:
    """A batch without items is a mistake, and is told so."""
    body = {"model": model, "contexts": []} if path == "/predict/batch" else {"feedback": []}
    problem = await post(small, path, 422, **body)
    assert slugs([problem]) == ["out-of-range"]

"""The HTTP contract of batches: one answer or problem per item, in order."""

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
    """Start a worker with a limit of MOST items per batch."""
    context = worker(store_url, max_batch_items=MOST)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def model(small: httpx2.AsyncClient, runner: asyncio.Runner, name: str) -> str:
    """Create a model and return its name."""
    assert runner.run(small.post("/models", json=definition(name))).status_code == 201
    return name


async def post(client: httpx2.AsyncClient, path: str, expected: int = 200, **body: Any) -> Any:
    """Post a JSON object; return the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code == expected, response.text
    return response.json()


def slugs(items: list[dict[str, Any]]) -> list[str]:
    """Return the type of each problem, and `ok` for each answer."""
    return [item["type"].removeprefix("urn:wager:problem:") if "type" in item else "ok" for item in items]


async def counters(client: httpx2.AsyncClient, name: str) -> tuple[int, int]:
    """Return a model's numbers of rounds and predictions."""
    model = (await client.get(f"/models/{name}")).json()
    return model["rounds_seen"], model["predictions"]


async def test_a_batch_answers_each_context_like_a_single_request(small: httpx2.AsyncClient, model: str) -> None:
    """Each item has a label, a propensity, and an id that accepts feedback."""
    contexts = some_contexts(1, MOST)
    body = await post(small, "/predict/batch", model=model, contexts=contexts, include_distribution=True)
    assert len({item["prediction_id"] for item in body["predictions"]}) == MOST
    for item in body["predictions"]:
        assert item["distribution"][item["label"]] == item["propensity"]
        await post(small, "/feedback", prediction_id=item["prediction_id"], correct=True)
    assert await counters(small, model) == (MOST, MOST)


async def test_a_wrong_context_fails_only_its_item(small: httpx2.AsyncClient, model: str) -> None:
    """The item's problem names the same field as a single request would."""
    contexts: list[Any] = [X, [1.0], [1.0, "2", 3.0], X, "context", None, [], [1.0, True, 2.0]]
    items = (await post(small, "/predict/batch", model=model, contexts=contexts))["predictions"]
    wrong = ["wrong-context-length", "wrong-type"]
    assert slugs(items) == ["ok", *wrong, "ok", "wrong-type", "wrong-type", "out-of-range", "wrong-type"]
    fields = [item.get("field") for item in items]
    assert fields == [None, "context", "context.1", None, "context", "context", "context", "context.1"]
    assert {item["status"] for item in items if "type" in item} == {422}
    assert await counters(small, model) == (0, 2)


async def test_ids_belong_to_their_contexts(small: httpx2.AsyncClient, model: str) -> None:
    """Ids apply in order; a repeated id is the same prediction, or a conflict if its context differs."""
    contexts = [X, [1.0, 0.0, 0.0], X, [0.0, 1.0, 0.0], X]
    ids = ["a", "b", "a", "a", f"{model}:c"]
    items = (await post(small, "/predict/batch", model=model, contexts=contexts, prediction_ids=ids))["predictions"]
    assert slugs(items) == ["ok", "ok", "ok", "prediction-conflict", "ok"]
    assert items[2] == items[0]
    assert [items[i]["prediction_id"] for i in (0, 1, 4)] == [f"{model}:{own}" for own in "abc"]
    assert await counters(small, model) == (0, 3)


async def test_a_wrong_id_fails_only_its_item(small: httpx2.AsyncClient, model: str) -> None:
    """An invalid id, or another model's, fails its item; null lets the service choose."""
    ids = ["a b", None, "other:a", 7, "a:b:c"]
    items = (await post(small, "/predict/batch", model=model, contexts=[X] * 5, prediction_ids=ids))["predictions"]
    assert slugs(items) == ["invalid-name", "ok", "invalid-identifier", "wrong-type", "invalid-name"]
    assert {item["field"] for item in items if "type" in item} == {"prediction_id"}


async def test_ids_must_be_as_many_as_contexts(small: httpx2.AsyncClient, model: str) -> None:
    """If the lists differ in length, the whole batch is refused."""
    problem = await post(small, "/predict/batch", 422, model=model, contexts=[X, X], prediction_ids=["a"])
    assert (slugs([problem]), problem["field"]) == (["invalid-identifier"], "prediction_ids")
    assert await counters(small, model) == (0, 0)


async def test_a_batch_for_an_unknown_model_fails_every_item(small: httpx2.AsyncClient) -> None:
    """Each item has the problem of the unknown model."""
    items = (await post(small, "/predict/batch", model="nobody", contexts=[X, X]))["predictions"]
    assert slugs(items) == ["model-not-found"] * 2


async def test_each_feedback_of_a_batch_has_its_own_result(small: httpx2.AsyncClient, model: str) -> None:
    """Recorded, duplicate, conflicting, unknown and malformed feedback get separate results."""
    body = await post(small, "/predict/batch", model=model, contexts=[X, X])
    a, b = (item["prediction_id"] for item in body["predictions"])
    feedback: list[Any] = [
        {"prediction_id": a, "correct": True},
        {"prediction_id": a, "correct": True},
        {"prediction_id": a, "correct": False},
        {"prediction_id": f"{model}:never", "correct": True},
        {"prediction_id": "nobody:never", "correct": True},
        {"prediction_id": "no-model", "correct": True},
        {"prediction_id": b},
        {"prediction_id": b, "correct": 1},
        {"prediction_id": b, "correct": True, "colour": 1},
        "feedback",
        {"prediction_id": b, "true_label": "purple"},
        {"prediction_id": b, "correct": False},
    ]
    items = (await post(small, "/feedback/batch", feedback=feedback))["results"]
    refused = ["feedback-conflict", "prediction-not-found", "model-not-found", "invalid-name", "invalid-request"]
    more = ["wrong-type", "unknown-field", "wrong-type", "unknown-label", "ok"]
    assert slugs(items) == ["ok", "ok", *refused, *more]
    assert [item["status"] for item in items[:2]] == ["recorded", "duplicate"]
    assert sorted(items[i]["round"] for i in (0, 11)) == [1, 2]
    assert await counters(small, model) == (2, 2)


async def test_a_batch_of_feedback_may_span_models(small: httpx2.AsyncClient, name: str) -> None:
    """Each feedback reaches its model."""
    ids = []
    for letter in "abc":
        await post(small, "/models", 201, **definition(f"{name}-{letter}", learner=GAPTRON))
        ids.append((await post(small, "/predict", model=f"{name}-{letter}", context=X))["prediction_id"])
    feedback = [{"prediction_id": each, "true_label": LABELS[0]} for each in ids]
    items = (await post(small, "/feedback/batch", feedback=feedback))["results"]
    assert [(item["prediction_id"], item["round"]) for item in items] == [(each, 1) for each in ids]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/predict/batch", {"contexts": [X] * (MOST + 1)}, "contexts"),
        ("/feedback/batch", {"feedback": [{"prediction_id": "m:a", "correct": True}] * (MOST + 1)}, "feedback"),
    ],
    ids=["predict", "feedback"],
)
async def test_a_batch_over_its_limit_is_refused(
    small: httpx2.AsyncClient, model: str, path: str, body: dict[str, Any], field: str
) -> None:
    """One item too many refuses the whole batch, with the list's name, and nothing is done."""
    named = {"model": model} if path == "/predict/batch" else {}
    problem = await post(small, path, 422, **named, **body)
    assert (slugs([problem]), problem["field"]) == (["batch-too-large"], field)
    assert await counters(small, model) == (0, 0)
    await post(small, path, 200, **named, **{field: body[field][:-1]})


@pytest.mark.parametrize("path", ["/predict/batch", "/feedback/batch"])
async def test_an_empty_batch_is_refused(small: httpx2.AsyncClient, model: str, path: str) -> None:
    """A batch without items is out of range."""
    body = {"model": model, "contexts": []} if path == "/predict/batch" else {"feedback": []}
    problem = await post(small, path, 422, **body)
    assert slugs([problem]) == ["out-of-range"]


async def test_an_item_may_differ_from_its_batch(small: httpx2.AsyncClient, model: str) -> None:
    """The fields of a batch hold for the items that do not say otherwise."""
    items = [{"context": X}, {"context": X, "include_distribution": False, "activated": True, "top": None}]
    common = {"include_distribution": True, "activated": False}
    first, second = (await post(small, "/predict/batch", model=model, items=items, **common))["predictions"]
    assert (first["distribution"] is None, second["distribution"] is None) == (False, True)
    given = [{"prediction_id": each["prediction_id"], "correct": True} for each in (first, second)]
    assert slugs((await post(small, "/feedback/batch", feedback=given))["results"]) == ["not-activated", "ok"]
    slotted = await post(small, "/predict/batch", model=model, items=items, top=2)
    assert [each["slots"] and len(each["slots"]) for each in slotted["predictions"]] == [2, None]


async def test_null_in_the_place_of_an_id_asks_for_one(small: httpx2.AsyncClient, model: str) -> None:
    """The service names the predictions whose ids are null; the others keep the client's."""
    body: dict[str, Any] = {"model": model, "contexts": [X, X], "prediction_ids": [None, "mine"]}
    (first, second), again = [(await post(small, "/predict/batch", **body))["predictions"] for _ in range(2)]
    assert first["prediction_id"].startswith(f"{model}:~")
    assert again[0]["prediction_id"] != first["prediction_id"]
    assert (second["prediction_id"], again[1]) == (f"{model}:mine", second)

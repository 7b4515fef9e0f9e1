"""The HTTP contract of batches: one answer or problem per item, in order."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import GAPTRON, LABELS, definition, post, slug_of, some_contexts
from tests.service.workers import worker

MOST = 20
X = [0.6, 0.8, 0.0]


class Site:
    """A worker with a limit of MOST items per batch, and a model."""

    def __init__(self, client: httpx2.AsyncClient, name: str) -> None:
        self.client, self.name = client, name

    async def predict(self, status: int = 200, **body: Any) -> Any:
        answer = await post(self.client, "/predict/batch", status, **{"model": self.name} | body)
        return answer["predictions"] if status == 200 else answer

    async def judge(self, *feedback: Any, status: int = 200) -> Any:
        answer = await post(self.client, "/feedback/batch", status, feedback=feedback)
        return answer["results"] if status == 200 else answer

    async def counters(self) -> tuple[int, int]:
        model = (await self.client.get(f"/models/{self.name}")).json()
        return model["rounds_seen"], model["predictions"]


@pytest.fixture
def site(store_url: str, runner: asyncio.Runner, name: str) -> Iterator[Site]:
    context = worker(store_url, max_batch_items=MOST)
    client = runner.run(context.__aenter__())
    runner.run(post(client, "/models", 201, **definition(name)))
    yield Site(client, name)
    runner.run(context.__aexit__(None, None, None))


def slugs(items: list[dict[str, Any]]) -> list[str]:
    return list(map(slug_of, items))


async def test_a_batch_answers_each_context_like_a_single_request(site: Site) -> None:
    items = await site.predict(contexts=some_contexts(1, MOST), include_distribution=True)
    assert len({item["prediction_id"] for item in items}) == MOST
    for item in items:
        assert item["distribution"][item["label"]] == item["propensity"]
        await post(site.client, "/feedback", prediction_id=item["prediction_id"], correct=True)
    assert await site.counters() == (MOST, MOST)


async def test_a_wrong_context_fails_only_its_item(site: Site) -> None:
    contexts: list[Any] = [X, [1.0], [1.0, "2", 3.0], X, "context", None, [], [1.0, True, 2.0]]
    items = await site.predict(contexts=contexts)
    wrong = ["wrong-context-length", "wrong-type"]
    assert slugs(items) == ["ok", *wrong, "ok", "wrong-type", "wrong-type", "out-of-range", "wrong-type"]
    fields = [item.get("field") for item in items]
    assert fields == [None, "context", "context.1", None, "context", "context", "context", "context.1"]
    assert {item["status"] for item in items if "type" in item} == {422}
    assert await site.counters() == (0, 2)
    assert slugs(await site.predict(model="nobody", contexts=[X, X])) == ["model-not-found"] * 2


async def test_ids_belong_to_their_contexts(site: Site) -> None:
    """A repeated id is the same prediction, or a conflict if its context differs; null asks for an id."""
    contexts = [X, [1.0, 0.0, 0.0], X, [0.0, 1.0, 0.0], X, X]
    ids = ["a", "b", "a", "a", f"{site.name}:c", None]
    items, again = [await site.predict(contexts=contexts, prediction_ids=ids) for _ in range(2)]
    assert slugs(items) == ["ok", "ok", "ok", "prediction-conflict", "ok", "ok"]
    assert items[2] == items[0]
    assert [items[i]["prediction_id"] for i in (0, 1, 4)] == [f"{site.name}:{own}" for own in "abc"]
    assert items[5]["prediction_id"].startswith(f"{site.name}:~")
    assert [each == other for each, other in zip(items, again, strict=True)] == [True] * 5 + [False]
    assert await site.counters() == (0, 5)


async def test_a_wrong_id_fails_only_its_item(site: Site) -> None:
    items = await site.predict(contexts=[X] * 5, prediction_ids=["a b", None, "other:a", 7, "a:b:c"])
    assert slugs(items) == ["invalid-name", "ok", "invalid-identifier", "wrong-type", "invalid-name"]
    assert {item["field"] for item in items if "type" in item} == {"prediction_id"}
    problem = await site.predict(422, contexts=[X, X], prediction_ids=["a"])
    assert (slug_of(problem), problem["field"]) == ("invalid-identifier", "prediction_ids")
    assert await site.counters() == (0, 1)


async def test_each_feedback_of_a_batch_has_its_own_result(site: Site) -> None:
    a, b = (item["prediction_id"] for item in await site.predict(contexts=[X, X]))
    expected: list[tuple[Any, str]] = [
        ({"prediction_id": a, "correct": True}, "ok"),
        ({"prediction_id": a, "correct": True}, "ok"),
        ({"prediction_id": a, "correct": False}, "feedback-conflict"),
        ({"prediction_id": f"{site.name}:never", "correct": True}, "prediction-not-found"),
        ({"prediction_id": "nobody:never", "correct": True}, "model-not-found"),
        ({"prediction_id": "no-model", "correct": True}, "invalid-name"),
        ({"prediction_id": b}, "invalid-request"),
        ({"prediction_id": b, "correct": 1}, "wrong-type"),
        ({"prediction_id": b, "correct": True, "colour": 1}, "unknown-field"),
        ("feedback", "wrong-type"),
        ({"prediction_id": b, "true_label": "purple"}, "unknown-label"),
        ({"prediction_id": b, "correct": False}, "ok"),
    ]
    items = await site.judge(*(given for given, _ in expected))
    assert slugs(items) == [slug for _, slug in expected]
    assert [item["status"] for item in items[:2]] == ["recorded", "duplicate"]
    assert sorted(items[i]["round"] for i in (0, 11)) == [1, 2]
    assert await site.counters() == (2, 2)


async def test_a_batch_of_feedback_may_span_models(site: Site) -> None:
    ids = []
    for letter in "abc":
        await post(site.client, "/models", 201, **definition(f"{site.name}-{letter}", learner=GAPTRON))
        ids.append((await post(site.client, "/predict", model=f"{site.name}-{letter}", context=X))["prediction_id"])
    items = await site.judge(*({"prediction_id": each, "true_label": LABELS[0]} for each in ids))
    assert [(item["prediction_id"], item["round"]) for item in items] == [(each, 1) for each in ids]


async def test_a_batch_over_its_limit_or_without_items_is_refused(site: Site) -> None:
    given = [{"prediction_id": f"{site.name}:a", "correct": True}] * (MOST + 1)
    for many, few, field in (
        (await site.predict(422, contexts=[X] * (MOST + 1)), await site.predict(422, contexts=[]), "contexts"),
        (await site.judge(*given, status=422), await site.judge(status=422), "feedback"),
    ):
        assert (slug_of(many), many["field"], slug_of(few)) == ("batch-too-large", field, "out-of-range")
    assert await site.counters() == (0, 0)
    await site.judge(*given[1:])
    await site.predict(contexts=[X] * MOST)


async def test_an_item_may_differ_from_its_batch(site: Site) -> None:
    items = [{"context": X}, {"context": X, "include_distribution": False, "activated": True, "top": None}]
    common = {"include_distribution": True, "activated": False}
    first, second = await site.predict(items=items, **common)
    assert (first["distribution"] is None, second["distribution"] is None) == (False, True)
    given = [{"prediction_id": each["prediction_id"], "correct": True} for each in (first, second)]
    assert slugs(await site.judge(*given)) == ["not-activated", "ok"]
    slotted = await site.predict(items=items, top=2)
    assert [each["slots"] and len(each["slots"]) for each in slotted] == [2, None]

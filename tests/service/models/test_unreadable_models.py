"""The laws of unreadable models: each fails alone. The laws of lists: they read no definitions."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import redis

from service.app import _warm_up
from service.schemas.models import ModelList
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.servers import raw
from tests.service.metrics import scrape, value
from tests.service.rounds.sessions import environment
from tests.service.sample_models import GAPTRON, LABELS, definition, post
from tests.service.workers import worker

Damage = Callable[[redis.Redis, str], Any]
X = [0.6, 0.8, 0.0]


def redefined(**changes: Any) -> Damage:
    """Return a damage that replaces fields of the definition."""

    def damage(client: redis.Redis, key: str) -> None:
        stored: Any = client.hget(key, "definition")
        client.hset(key, "definition", json.dumps(json.loads(stored) | changes))

    return damage


def replaced(field: str, value: bytes) -> Damage:
    return lambda client, key: client.hset(key, field, value)


def without(field: str) -> Damage:
    return lambda client, key: client.hdel(key, field)


def another_type(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.rpush(key, "nothing")


def another_hash(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.hset(key, "colour", "red")


DAMAGES: dict[str, Damage] = {
    "definition is not JSON": replaced("definition", b"{"),
    "definition is another JSON": replaced("definition", b"[1]"),
    "definition is not UTF-8": replaced("definition", b'{"name":"\xff"}'),
    "definition nested deeply": replaced("definition", b"[" * 100_000),
    "unknown algorithm": redefined(learner={"algorithm": "later-algorithm"}),
    "bad hyperparameter": redefined(learner=GAPTRON | {"eta_scale": -1.0}),
    "unknown hyperparameter": redefined(learner=GAPTRON | {"depth": 3}),
    "unknown field": redefined(later=1),
    "labels missing": redefined(labels=None),
    "labels twice": redefined(labels=["red", "red"]),
    **{field: without(field) for field in ("incarnation", "definition", "created_at", "rounds", "correct")},
    "predictions are not a number": replaced("predictions", b"many"),
    "rounds are negative": replaced("rounds", b"-1"),
    "created at NaN": replaced("created_at", b"nan"),
    "created too late": replaced("created_at", b"1e300"),
    "incarnation is not UTF-8": replaced("incarnation", b"\xff\xfe"),
    "another type": another_type,
    "another hash": another_hash,
}
NEWER = {"unknown algorithm", "unknown hyperparameter", "unknown field"}
"""Damage that a later version may have written, and that is therefore reported as `newer-version`."""

SUMMARIES: dict[str, Damage] = {
    "none": without("summary"),
    "not JSON": replaced("summary", b"{"),
    "another JSON": replaced("summary", b"{}"),
    "of another definition": replaced("summary", b'{"definition_bytes":1}'),
    "too long": replaced("summary", b" " * 100_000),
}
DETAIL_ONLY = {"changes", "retired_labels", "warnings", "labels", "guarantee", "damaged_rounds", "damage"}
"""Fields that a list leaves out."""


async def create(client: httpx2.AsyncClient, *names: str, **fields: Any) -> None:
    for name in names:
        await post(client, "/models", 201, **definition(name, **{"learner": GAPTRON} | fields))


async def test_an_unreadable_model_ends_no_warm_up(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = list[type[Any]]()
    monkeypatch.setattr("service.app.load", loaded.append)
    monkeypatch.setattr("service.app.gc.freeze", lambda: None)
    async with worker(empty) as client:
        await create(client, "a", "b")
    store = RedisStore(empty, 10.0)
    await store.command("HSET", keys.model("a"), "definition", "{")
    await _warm_up(environment(store))
    await store.close()
    assert [each.algorithm for each in loaded] == [GAPTRON["algorithm"]]


async def listed(client: httpx2.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    """Return the items of a list, after validating it against its schema."""
    response = await client.get("/models", params=query)
    assert response.status_code == 200, response.text
    ModelList.model_validate_json(response.text)
    models: list[dict[str, Any]] = response.json()["models"]
    return models


def without_id(problem: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in problem.items() if field != "request_id" and value is not None}


@pytest.mark.parametrize("kind", DAMAGES)
async def test_each_model_fails_alone(empty: str, kind: str) -> None:
    """A list shows the model's problem, as reading it does; metrics count it; other models work; it can be deleted."""
    async with worker(empty) as client:
        await create(client, "a", "b", "c")
        before = await listed(client)
        with raw(empty) as store:
            DAMAGES[kind](store, keys.model("b"))
        a, b, c = await listed(client)
        assert [a, c] == [before[0], before[2]]
        response = await client.get("/models/b")
        status, slug = (503, "newer-version") if kind in NEWER else (500, "store-corrupt")
        assert (response.status_code, response.json()["type"]) == (status, f"urn:wager:problem:{slug}")
        assert b == {"name": "b", "problem": b["problem"]}
        assert without_id(b["problem"]) == without_id(response.json())
        samples = await scrape(client)
        reported = {dict(labels)["model"] for metric, labels in samples if metric == "wager_predictions_total"}
        assert reported == {"a", "c"}
        counts = ("wager_store_up", "wager_models_unreadable", "wager_models")
        assert [value(samples, name) for name in counts] == [1, 1, 3]
        assert value(samples, "wager_models_omitted", reason="maximum") == 0
        await post(client, "/predict", 200, model="c", context=X)
        assert (await client.delete("/models/b")).status_code == 204
        assert [item["name"] for item in await listed(client)] == ["a", "c"]
        assert (await client.get("/models/b")).status_code == 404
        await create(client, "b")
        assert len(await listed(client)) == 3


@pytest.mark.parametrize("broken", ["wager:{b}:%s:tally", "wager:{b}:%s:snapshot"])
async def test_a_broken_tally_affects_its_model_only(empty: str, broken: str) -> None:
    async with worker(empty) as client:
        await create(client, "a", "b")
        with raw(empty) as store:
            incarnation: Any = store.hget(keys.model("b"), "incarnation")
            store.hset(broken % incarnation.decode(), mapping={"rounds": "x", "s:y": "z", "at": "?"})
        samples = await scrape(client)
        assert (value(samples, "wager_store_up"), value(samples, "wager_models_unreadable")) == (1, 1)
        assert value(samples, "wager_predictions_total", model="a") == 0


async def test_invalid_names_are_skipped(empty: str) -> None:
    """Pagination continues after names that are not valid, whatever the page size."""
    async with worker(empty) as client:
        await create(client, "a", "c")
        with raw(empty) as store:
            store.zadd(keys.MODELS, dict.fromkeys((b"b\xff", b"b\xfe\xff", "bé".encode()), 0))
        for limit in (1, 2, 10):
            found: list[str] = []
            cursor: str | None = ""
            while cursor is not None:
                page = (await client.get("/models", params={"cursor": cursor, "limit": limit})).json()
                found += [item["name"] for item in page["models"]]
                cursor = page["next_cursor"]
            assert found == ["a", "c"]
        assert value(await scrape(client), "wager_store_up") == 1


@pytest.mark.parametrize("damage", SUMMARIES.values(), ids=SUMMARIES)
async def test_a_list_restores_a_damaged_summary(empty: str, damage: Damage) -> None:
    """If the store refuses writes, a list computes the summary that it cannot store."""
    async with worker(empty) as client:
        await create(client, "b")
        before = await listed(client)
        with raw(empty) as store:
            kept = store.hget(keys.model("b"), "summary")
            assert kept is not None
            damage(store, keys.model("b"))
            store.config_set("min-replicas-to-write", 1)
            try:
                assert await listed(client) == before
            finally:
                store.config_set("min-replicas-to-write", 0)
            assert await listed(client) == before
            assert store.hget(keys.model("b"), "summary") == kept


async def test_a_list_item_is_the_model_without_its_labels(empty: str) -> None:
    async with worker(empty) as client:
        await create(client, "a", window_seconds=7.5, late_feedback="accept", retain_rounds=5)
        made = await post(client, "/predict", model="a", context=X)
        await post(client, "/feedback", prediction_id=made["prediction_id"], correct=True)
        model = (await client.get("/models/a")).json()
        assert (model["rounds_seen"], model["labels"]) == (1, LABELS)
        model = {field: value for field, value in model.items() if field not in DETAIL_ONLY}
        assert await listed(client) == [model | {"label_count": len(LABELS)}]


async def test_a_list_reads_no_definition(empty: str) -> None:
    """Neither a list nor metrics read the definitions of models with many labels."""
    labels = [f"label-{i:05}" for i in range(50_000)]
    async with worker(empty) as client:
        await create(client, "a", "b", labels=labels, learner={"algorithm": "uniform"})
        with raw(empty) as store:
            for ask in (listed, scrape):
                before: Any = store.info("stats")
                await ask(client)
                after: Any = store.info("stats")
                assert after["total_net_output_bytes"] - before["total_net_output_bytes"] < 50_000
        assert len((await client.get("/models")).content) < 2_000
        assert (await client.get("/models/a")).json()["labels"] == labels


async def test_a_summary_is_stored_for_its_incarnation_only(empty: str) -> None:
    async with worker(empty) as client:
        await create(client, "b")
        with raw(empty) as store:
            stored: Any = store.hgetall(keys.model("b"))
        await client.delete("/models/b")
        await create(client, "b", labels=[*LABELS, "more"])
        own = RedisStore(empty, 5.0)
        old = ModelKey("b", stored[b"incarnation"].decode())
        assert not await own.keep_summary(old, stored[b"summary"].decode())
        await own.close()
        assert (await listed(client))[0]["label_count"] == len(LABELS) + 1

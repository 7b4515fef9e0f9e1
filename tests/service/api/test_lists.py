"""The laws of lists of models: each model once in every order, exact searches and totals, no word on other models."""

import itertools
import json
from typing import Any

import httpx2
import numpy as np
import pytest

from service.background.upkeep import StatisticsPublisher
from service.models.reading import stored_model
from service.registry import catalogue
from service.replicas.replica import Replica
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from service.store.values import PublishedStatistics
from tests.servers import raw
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import COMPUTE
from tests.service.workers import START, Clock, worker

SORTS = ["name", "traffic", "reward", "trouble"]
PATHS = ["/models", "/statistics"]
NAMES = [f"{place}-{kind}.{n}" for place in ("shop", "Shop", "web") for kind in ("a", "b_C") for n in range(3)]
each_sort = pytest.mark.parametrize("sort", SORTS)
each_path = pytest.mark.parametrize("path", PATHS)
OVERVIEWS: list[dict[str, Any]] = [
    {"rounds": 5000, "reward": 0.25, "verdict": "at_chance", "reason": "no better than chance"},
    {"rounds": 5000, "reward": 0.5, "verdict": "dropped", "reason": "it fell"},
    {"rounds": 5000, "reward": 0.75, "verdict": "leaning"},
    {"rounds": 5000, "reward": 0.5, "verdict": "collapsed", "reason": "no exploration is left"},
    {"verdict": "exploring"},
]
"""What published statistics say about the models, in turn."""


async def create(client: httpx2.AsyncClient, *names: str) -> None:
    for name in names:
        made = await client.post("/models", json={"name": name, "labels": ["a", "b"], "learner": "uniform"})
        assert made.status_code == 201, made.text


async def fill(client: httpx2.AsyncClient, url: str) -> dict[str, dict[str, Any]]:
    """Create models with different rewards, verdicts and traffic; return the overview of each."""
    await create(client, *NAMES)
    store = RedisStore(url, 10.0)
    found = dict(zip(NAMES, itertools.cycle(OVERVIEWS), strict=False))
    for n, (name, overview) in enumerate(found.items()):
        await publish(store, name, overview)
        if n % 3:
            await store.count_traffic({name: n})
    await store.close()
    return found


async def publish(store: RedisStore, name: str, overview: dict[str, Any], rounds: int = 1) -> None:
    stored = await store.get_model(name)
    assert stored is not None
    await store.publish_statistics(stored.key, PublishedStatistics(rounds, b"", 1, 0, 1, "[]", json.dumps(overview)))


async def pages(client: httpx2.AsyncClient, path: str, limit: int = 4, **query: Any) -> list[dict[str, Any]]:
    found = list[dict[str, Any]]()
    cursor: str | None = ""
    while cursor is not None:
        answer = await client.get(path, params=query | {"limit": limit, "cursor": cursor})
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        assert len(found[-1]["models"]) <= limit
        assert found[-1]["next_cursor"] != cursor
        cursor = found[-1]["next_cursor"]
    return found


async def listed(client: httpx2.AsyncClient, path: str, **query: Any) -> list[str]:
    return [model["name"] for page in await pages(client, path, **query) for model in page["models"]]


@each_sort
@each_path
async def test_every_model_is_on_exactly_one_page(empty: str, path: str, sort: str) -> None:
    async with worker(empty) as client:
        await fill(client, empty)
        whole = await listed(client, path, sort=sort, limit=200)
        assert sorted(whole) == sorted(NAMES)
        for limit in (1, 2, 5, len(NAMES)):
            found = await pages(client, path, sort=sort, limit=limit)
            assert [model["name"] for page in found for model in page["models"]] == whole
            assert {page["total"] for page in found} == {len(NAMES)}
            assert all(len(page["models"]) == limit for page in found[:-1])


async def test_each_order_is_as_documented(empty: str) -> None:
    async with worker(empty) as client:
        overviews = await fill(client, empty)
        ranks = {"dropped": 0, "collapsed": 1, "at_chance": 2}
        orders: dict[str, Any] = {
            "name": lambda _: (),
            "traffic": lambda name: (-NAMES.index(name) if NAMES.index(name) % 3 else 1,),
            "reward": lambda name: (-overviews[name].get("reward", -1.0),),
            "trouble": lambda name: (ranks.get(overviews[name]["verdict"], 3),),
        }
        for sort, key in orders.items():
            expected = sorted(NAMES, key=lambda name: (key(name), name))
            for path in PATHS:
                assert await listed(client, path, sort=sort) == expected, sort


@each_sort
@each_path
async def test_a_search_finds_each_part_of_a_name_in_any_case(empty: str, path: str, sort: str) -> None:
    async with worker(empty) as client:
        await fill(client, empty)
        for text in ("shop", "SHOP-A", "b_c", ".1", "-", "web-a.2", "e", "nothing", "*", " ", "é", "a.0b"):
            expected = {name for name in NAMES if text.lower() in name.lower()}
            found = await pages(client, path, sort=sort, search=text)
            names = [model["name"] for page in found for model in page["models"]]
            assert (len(names), set(names)) == (len(expected), expected), text
            assert {page["total"] for page in found} == {len(expected)}


@each_sort
async def test_those_that_need_attention_are_counted_and_say_why(empty: str, sort: str) -> None:
    async with worker(empty) as client:
        overviews = await fill(client, empty)
        for search in ("", "shop", "web"):
            found = await pages(client, "/statistics", sort=sort, search=search)
            models = [model for page in found for model in page["models"]]
            assert {model["name"]: model["attention"] for model in models} == {
                name: overview.get("reason") for name, overview in overviews.items() if search in name.lower()
            }
            assert {page["attention"] for page in found} == {sum(bool(model["attention"]) for model in models)}


async def test_the_worst_trouble_comes_first(empty: str) -> None:
    """Unreadable models, then damaged rounds, then verdicts, then statistics that lack many rounds, then the others."""
    order = ["unreadable", "damaged", "dropped", "collapsed", "chance", "lagging", "a-late-one", "fine"]
    async with worker(empty) as client:
        await create(client, *order)
        store = RedisStore(empty, 10.0)
        for name, overview in zip(("chance", "dropped", "fine", "collapsed"), OVERVIEWS, strict=False):
            await publish(store, name, overview)
        await publish(store, "damaged", OVERVIEWS[0])
        with raw(empty) as client_of_store:
            client_of_store.hset(keys.model("unreadable"), "rounds", "many")
            client_of_store.hset(keys.model("damaged"), "damaged", 1)
            client_of_store.hset(keys.model("lagging"), "rounds", 10_001)
            client_of_store.hset(keys.model("a-late-one"), "rounds", 10_000)
        found = (await client.get("/statistics?sort=trouble")).json()
        assert [model["name"] for model in found["models"]] == order
        assert found["attention"] == 6
        assert found["models"][0]["problem"]["type"] == "urn:wager:problem:store-corrupt"
        assert "1 round that" in found["models"][1]["attention"]
        assert "10,001 rounds" in found["models"][5]["attention"]
        await store.close()


async def test_a_fall_of_the_reward_is_trouble_once_it_is_published(empty: str) -> None:
    rng = np.random.default_rng(1)
    async with worker(empty, Clock()) as client:
        await create(client, "fallen", "steady")
        for name, later in (("fallen", 0.1), ("steady", 0.8)):
            for chance, n in ((0.8, 1000), (later, 500)):
                body = {"model": name, "contexts": [{}] * n}
                made = (await client.post("/predict/batch", json=body)).json()["predictions"]
                judged = [{"prediction_id": p["prediction_id"], "correct": bool(rng.random() < chance)} for p in made]
                assert (await client.post("/feedback/batch", json={"feedback": judged})).status_code == 200
        store = RedisStore(empty, 10.0)
        for name in ("fallen", "steady"):
            stored = await store.get_model(name)
            assert stored is not None
            replica = Replica(stored_model(stored), store, COMPUTE)
            await replica.catch_up()
            await StatisticsPublisher(replica, store, lambda: START).publish_if_due(1)
        await store.close()
        found = (await client.get("/statistics?sort=trouble")).json()
        assert [(each["name"], each["verdict"] == "dropped") for each in found["models"]] == [
            ("fallen", True),
            ("steady", False),
        ]
        assert found["attention"] == 1
        assert found["models"][0]["attention"].startswith("The accuracy of the last ")
        assert [each["name"] for each in (await client.get("/statistics?sort=reward")).json()["models"]] == [
            "steady",
            "fallen",
        ]


@each_sort
@each_path
async def test_a_list_follows_creations_deletions_and_news(empty: str, path: str, sort: str) -> None:
    async with worker(empty) as client, worker(empty) as other:
        await create(client, "a", "b", "c")
        assert sorted(await listed(other, path, sort=sort)) == ["a", "b", "c"]
        store = RedisStore(empty, 10.0)
        await publish(store, "b", OVERVIEWS[1])
        assert (await client.delete("/models/a")).status_code == 204
        await create(client, "d")
        for each in (client, other):
            assert sorted(await listed(each, path, sort=sort)) == ["b", "c", "d"]
        found = (await other.get("/statistics", params={"sort": sort})).json()
        assert (found["total"], found["attention"]) == (3, 1)
        assert (await client.delete("/models/b")).status_code == 204
        await create(client, "b")
        found = (await other.get("/statistics", params={"sort": sort})).json()
        assert (found["total"], found["attention"]) == (3, 0)  # the new model has none of the old one's statistics
        await store.close()


@pytest.mark.parametrize("sort", ["reward", "trouble"])
async def test_in_long_lists_every_model_finds_its_place_after_some_lists(
    empty: str, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(catalogue, "REREAD", 2)
    names = [f"m{n:02}" for n in range(20)]
    async with worker(empty) as client:
        await create(client, *names)
        assert await listed(client, "/models", sort=sort, limit=1) == names
        store = RedisStore(empty, 10.0)
        await publish(store, names[13], OVERVIEWS[1])
        for _ in range(len(names) // 2):
            answer = (await client.get("/statistics", params={"sort": sort, "limit": 1})).json()
            assert answer["total"] == len(names)
        assert (answer["models"][0]["name"], answer["attention"]) == (names[13], 1)
        await store.close()


@pytest.mark.usefixtures("no_background")
@each_sort
@each_path
async def test_a_list_reads_no_more_models_of_a_longer_one(
    empty: str, monkeypatch: pytest.MonkeyPatch, path: str, sort: str
) -> None:
    monkeypatch.setattr(catalogue, "REREAD", 2)
    commands = []
    async with worker(empty) as client:
        for letter in "ab":
            await create(client, *(f"{letter}{n}" for n in range(20)))
            await listed(client, path, sort=sort, limit=200)
            with raw(empty) as store:
                before: Any = store.info("commandstats")
                await client.get(path, params={"sort": sort, "limit": 3})
                after: Any = store.info("commandstats")
            calls = {name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in after}
            commands.append(calls["cmdstat_evalsha"])
    assert commands == [5, 5]


async def test_a_cursor_continues_after_its_model_is_gone(empty: str) -> None:
    async with worker(empty) as client:
        await fill(client, empty)
        for sort in SORTS:
            whole = await listed(client, "/models", sort=sort)
            first = (await client.get("/models", params={"sort": sort, "limit": 4})).json()
            assert (await client.delete(f"/models/{whole[3]}")).status_code == 204
            query = {"sort": sort, "limit": 200, "cursor": first["next_cursor"]}
            rest = [model["name"] for model in (await client.get("/models", params=query)).json()["models"]]
            assert rest == whole[4:]


async def test_a_damaged_overview_hides_no_model(empty: str) -> None:
    async with worker(empty) as client:
        await create(client, "a", "b")
        store = RedisStore(empty, 10.0)
        await publish(store, "a", OVERVIEWS[1])
        for damage in (b"", b"{", b"[]", b'{"rounds":-1}', b'{"reward":NaN}', b'{"reward":"1"}', b"\xff"):
            await store.command("HSET", keys.model("a"), "overview", damage)
            for path, sort in itertools.product(PATHS, SORTS):
                assert await listed(client, path, sort=sort) == ["a", "b"], damage
        await store.close()


@each_sort
@each_path
async def test_a_key_learns_nothing_about_other_models(empty: str, path: str, sort: str) -> None:
    """With other models in the store, whatever their traffic and troubles, the answers are the same, byte for byte."""
    store = RedisStore(empty, 10.0)
    admin = key_admin_at(ApiKeyTable(store.command), Clock())
    async with worker(empty, auth="required", key_cache_seconds=0.0) as client:
        everything = await admin.create("all", ["admin"])
        client.headers.update(bearer(everything))
        await fill(client, empty)
        own = [name for name in NAMES if name.startswith("shop-")]
        reader = bearer(await admin.create("own", ["read"], "shop-*"))

        async def answers() -> list[bytes]:
            found = list[bytes]()
            for search, limit in (("", 2), ("", 200), ("SHOP", 3), ("web", 3), ("b", 1)):
                cursor: str | None = ""
                while cursor is not None:
                    query: dict[str, Any] = {"sort": sort, "search": search, "limit": limit, "cursor": cursor}
                    answer = await client.get(path, params=query, headers=reader)
                    found.append(answer.content)
                    assert answer.json()["next_cursor"] != cursor
                    cursor = answer.json()["next_cursor"]
            return found

        before = await answers()
        assert {json.loads(each)["total"] for each in before} <= {0, 3, 6}
        assert sorted(model["name"] for model in json.loads(before[3])["models"]) == own
        for name in set(NAMES) - set(own):
            assert (await client.delete(f"/models/{name}")).status_code == 204
        assert await answers() == before
    await store.close()

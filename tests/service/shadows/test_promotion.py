"""The laws of a promotion: every worker continues with the shadow's state after every round before the change."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from service.errors import StoreUnavailableError
from service.replicas.other_folds import KeptFold
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Keeping
from tests.service.replicas.altering import current, fresh
from tests.service.sample_models import COMPUTE, bits, definition, one_by_one, play, some_contexts, whole_log
from tests.service.workers import Clock, worker

ANY = {"If-Match": "*"}


async def _play(client: httpx2.AsyncClient, name: str, n: int, seed: int) -> None:
    for i, context in enumerate(some_contexts(seed, n)):
        answer = await client.post("/predict", json={"model": name, "context": context})
        assert answer.status_code == 200, answer.text
        id_, right = answer.json()["prediction_id"], answer.json()["label"] == "red" or i % 3 == 0
        assert (await client.post("/feedback", json={"prediction_id": id_, "correct": right})).status_code == 200


async def _kept(client: httpx2.AsyncClient, name: str) -> list[str]:
    return [each["id"] for each in (await client.get(f"/models/{name}/snapshots")).json()["snapshots"]]


async def _true_state(store: RedisStore, name: str) -> Any:
    model, tail = await current(store, name), await store.read_tail((await current(store, name)).key, 0, 10**6)
    (change,) = tail.changes
    learner = model.learner
    state = learner.init()
    for number, record in enumerate(one_by_one(tail.entries), 1):
        rows = model.choice.records.rows([record])
        rounds = model.rounds_of(rows)
        made_before = rows.table["changes_seen"][0] < change.change_count
        if number <= change.round_count or made_before:
            rounds = rounds._replace(evidence=learner.decide(state, rounds.contexts, rounds.eligible).evidence)
        state = learner.fold(state, rounds)
    return state


@pytest.mark.parametrize("shadow", ["squarecb", "gaptron", "newtron"])
async def test_promotion_under_traffic(store: RedisStore, store_url: str, name: str, shadow: str) -> None:
    clock = Clock()
    async with worker(store_url, clock, 1) as one, worker(store_url, clock, 2) as two:
        assert (await one.post("/models", json=definition(name))).status_code == 201
        put = await one.put(f"/models/{name}/shadows/rival", json={"learner": shadow})
        assert put.status_code == 200, put.text
        await _play(one, name, 30, 3)
        waiting = [await two.post("/predict", json={"model": name, "context": x}) for x in some_contexts(8, 20)]
        promote = one.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
        _, _, promoted = await asyncio.gather(_play(one, name, 25, 4), _play(two, name, 25, 5), promote)
        assert promoted.status_code == 200, promoted.text
        for i, made in enumerate(waiting):
            late = {"prediction_id": made.json()["prediction_id"], "correct": i % 3 == 0}
            assert (await two.post("/feedback", json=late)).status_code == 200
        await asyncio.gather(_play(one, name, 5, 6), _play(two, name, 5, 7))
        model = (await two.get(f"/models/{name}")).json()
        assert (await one.get(f"/models/{name}/shadows")).json() == {"shadows": []}
    assert model["rounds_seen"] == 110
    assert model["learner"]["algorithm"] == shadow
    note = model["changes"]["latest"][0]
    assert (note["kind"], note["shadow"], note["replaced"]["algorithm"]) == ("promote", "rival", "soba-diagonal")
    replica = await fresh(store, await current(store, name))
    assert bits(replica.state) == bits(await _true_state(store, name))
    await replica.snapshot()
    again = await fresh(store, await current(store, name))
    assert (bits(again.state), again.snapshot_rounds) == (bits(replica.state), 110)


async def test_a_promotion_survives_trimming_before_its_change(store: RedisStore, store_url: str, name: str) -> None:
    async with worker(store_url) as client:
        await client.post("/models", json=definition(name, retain_rounds=0))
        await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
        await _play(client, name, 20, 3)
        before = await current(store, name)
        lagging = await fresh(store, before)
        await store.hold_rounds(before.key, 20, 1)
        await store.drop_shadow(before.key, "rival")
        await play(store, before, 300, seed=4)
        await lagging.catch_up()
        await lagging.snapshot()
        first = (await whole_log(store, before.key))[0].last_round
        assert first <= 20


async def test_the_fold_of_a_promotion_keeps_nothing_of_its_rounds(
    store: RedisStore, store_url: str, name: str
) -> None:
    async with worker(store_url) as client:
        await client.post("/models", json=definition(name))
        await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
        await client.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
        await _play(client, name, 20, 3)
    fold = KeptFold(await current(store, name), store, COMPUTE)
    await fold._load()
    await fold._take(await fold._read_tail())
    assert (fold.round_count, fold._recomputing._probabilities) == (20, [])


async def test_requests_that_promote_nothing(store_url: str, name: str) -> None:
    async with worker(store_url) as client:
        await client.post("/models", json=definition(name))
        path = f"/models/{name}/promote"
        wrong = await client.post(path, json={"shadow": "rival"}, headers=ANY)
        assert (wrong.status_code, wrong.json()["type"].rpartition(":")[2]) == (404, "shadow-not-found")
        assert (await client.post(path, json={"shadow": "rival"})).status_code == 428
        await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
        stale = await client.post(path, json={"shadow": "rival"}, headers={"If-Match": '"other.0"'})
        assert stale.status_code == 412
        etag = (await client.get(f"/models/{name}")).headers["ETag"]
        first = await client.post(path, json={"shadow": "rival"}, headers={"If-Match": etag})
        assert first.status_code == 200, first.text
        again = await client.post(path, json={"shadow": "rival"}, headers={"If-Match": etag})
        assert (again.status_code, json.loads(again.text)) == (200, first.json())
        assert first.json()["changes"]["count"] == 1
        await _play(client, name, 10, 5)


@pytest.mark.parametrize("other_change", [False, True])
async def test_a_promotion_that_was_cut_short_leaves_no_snapshot_to_the_next(
    store: RedisStore, store_url: str, name: str, monkeypatch: pytest.MonkeyPatch, *, other_change: bool
) -> None:
    async def die(*_: object) -> bool:
        raise StoreUnavailableError("the worker lost the store")

    async with worker(store_url) as client:
        await client.post("/models", json=definition(name))
        await client.post(f"/models/{name}/snapshots", json={"id": "own"})
        for number, rival in enumerate(("squarecb", "gaptron"), 1):
            await client.put(f"/models/{name}/shadows/rival", json={"learner": rival})
            await _play(client, name, 10, number)
            with monkeypatch.context() as patch:
                patch.setattr(RedisStore, "change_model", die)
                cut = await client.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
                assert (cut.status_code, len(await _kept(client, name))) == (503, number + 1)
            if other_change:
                await client.patch(f"/models/{name}", json={"window_seconds": 50.0 + number}, headers=ANY)
            promoted = await client.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
            assert promoted.status_code == 200, promoted.text
            assert len(await _kept(client, name)) == number + 1  # its own, and those of all promotions so far
        await _play(client, name, 5, 3)
    replica = await fresh(store, await current(store, name))
    assert replica.round_count == 25


async def test_a_promotion_whose_snapshot_is_dropped_tries_again(
    store_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_model, cut = RedisStore.change_model, list[str]()

    async def race(store: RedisStore, key: ModelKey, digest: bytes, *args: Any) -> bool:
        if not cut:
            cut.extend(note.id for note in await store.list_kept(key))
            assert [await store.drop_kept(key, id_, digest, 0) for id_ in cut] == [Keeping.DONE]
        return await change_model(store, key, digest, *args)

    async with worker(store_url) as client:
        await client.post("/models", json=definition(name))
        await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
        await _play(client, name, 10, 1)
        monkeypatch.setattr(RedisStore, "change_model", race)
        promoted = await client.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
        assert promoted.status_code == 200, promoted.text
        (kept,) = await _kept(client, name)
        assert kept not in cut
        await _play(client, name, 5, 2)


async def test_a_late_repetition_spares_a_new_shadow(store_url: str, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        await client.post("/models", json=definition(name))
        etag = (await client.get(f"/models/{name}")).headers["ETag"]
        promote, shadow = f"/models/{name}/promote", f"/models/{name}/shadows/rival"
        for learner in ("squarecb", "gaptron"):
            clock.now += 1.0
            await client.put(shadow, json={"learner": learner})
            done = await client.post(promote, json={"shadow": "rival"}, headers={"If-Match": etag})
            assert (done.status_code, done.json()["changes"]["count"]) == (200, 1)
        assert (await client.get(shadow)).json()["learner"]["algorithm"] == "gaptron"


async def test_rollback_across_a_promotion(store: RedisStore, store_url: str, name: str) -> None:
    async with worker(store_url) as client:
        await client.post("/models", json=definition(name))
        await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
        await _play(client, name, 20, 3)
        old = await fresh(store, await current(store, name))
        kept = await client.post(f"/models/{name}/snapshots", json={"id": "before"})
        assert kept.status_code == 201
        await client.post(f"/models/{name}/promote", json={"shadow": "rival"}, headers=ANY)
        await _play(client, name, 10, 4)
        back = await client.post(f"/models/{name}/rollback", json={"snapshot": "before"}, headers=ANY)
        assert back.status_code == 200, back.text
        assert back.json()["learner"]["algorithm"] == "soba-diagonal"
        now = await fresh(store, await current(store, name))
        assert bits(now.state) == bits(old.state)
        of_shadow = back.json()["changes"]["latest"][1]["snapshot"]
        forth = await client.post(f"/models/{name}/rollback", json={"snapshot": of_shadow}, headers=ANY)
        assert (forth.status_code, forth.json()["learner"]["algorithm"]) == (200, "squarecb")
        await _play(client, name, 10, 5)

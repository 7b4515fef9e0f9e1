"""The laws of logs, snapshots and definitions of a later version: nothing of them is skipped, and feedback goes on."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from learners.codec import encode_state
from service.errors import NewerVersionError
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Damage, Snapshot
from tests.service.damaging import played, predicted, session_of
from tests.service.replicas.altering import stored, write_history
from tests.service.sample_models import definition
from tests.service.store.samples import digest_of
from tests.service.workers import Clock, worker

X = [0.6, 0.8, 0.0]
NEWER: dict[str, list[Any]] = {
    "a change": ["t", "c", "v", 4, "k", "labels", "d", "x"],
    "a change like a round": ["t", "c", "v", 4, "p", "b", "d", "x"],
    "an unknown type": ["t", "z", "v", 4, "p", "b", "d", "x"],
    "a later version": ["t", "r", "v", 6, "p", "b", "d", "x"],
    "a further field": ["t", "r", "v", 4, "p", "b", "d", "x", "e", "y"],
    "an old entry with a further field": ["p", "b", "r", "x", "s", "z"],
    "another field": ["t", "r", "v", 4, "p", "b", "x", "x"],
}


class Two:
    """Two workers with one store and one model."""

    def __init__(self, clients: list[httpx2.AsyncClient], name: str) -> None:
        self.clients = clients
        self.name = name

    async def create(self, name: str = "") -> None:
        assert (await self.clients[0].post("/models", json=definition(name or self.name))).status_code == 201

    async def predict(self, at: int = 0, name: str = "") -> httpx2.Response:
        return await self.clients[at].post("/predict", json={"model": name or self.name, "context": X})

    async def judge(self, prediction: httpx2.Response, at: int = 0) -> httpx2.Response:
        feedback = {"prediction_id": prediction.json()["prediction_id"], "correct": True}
        return await self.clients[at].post("/feedback", json=feedback)

    async def refuse(self, status: int = 503, slug: str = "newer-version") -> None:
        for at in (0, 1):
            refused = await self.predict(at)
            assert (refused.status_code, refused.json()["type"]) == (status, f"urn:wager:problem:{slug}")


@pytest.fixture
def two(store_url: str, runner: asyncio.Runner, name: str) -> Iterator[Two]:
    """Start two workers on one store."""
    clock = Clock()
    contexts = [worker(store_url, clock), worker(store_url, clock)]
    yield Two([runner.run(context.__aenter__()) for context in contexts], name)
    for context in contexts:
        runner.run(context.__aexit__(None, None, None))


async def add_newer_change(store: RedisStore, key: ModelKey, entry: str) -> None:
    """Add a change of a newer version to the log and to the history of a model."""
    await store.command("XADD", keys.log(*key), entry, *NEWER["a change"])
    await write_history(store, key.name, ['{"at":1.0,"later":1}'])


@pytest.mark.parametrize("before", [0, 2])
async def test_a_change_stops_predictions_but_no_feedback(two: Two, store: RedisStore, name: str, before: int) -> None:
    await two.create()
    await two.create(f"{name}-other")
    for _ in range(before):
        assert (await two.judge(await two.predict())).status_code == 200
    opened = [await two.predict(at) for at in (0, 1)]
    key = (await stored(store, name)).key
    await add_newer_change(store, key, f"{before}-1")
    await two.refuse()
    for at, prediction in enumerate(opened):
        answer = await two.judge(prediction, at)
        assert (answer.status_code, answer.json()["status"]) == (200, "recorded")
        assert answer.json()["round"] == before + 1 + at
        assert (await two.judge(prediction, at)).json()["status"] == "duplicate"
    await two.refuse()
    assert (await two.predict(0, f"{name}-other")).status_code == 200
    after = await stored(store, name)
    assert (after.predictions, after.round_count) == (before + 2, before + 2)
    ids = [id_.decode() for id_, _ in await store.command("XRANGE", keys.log(*key), "-", "+")]
    assert ids == [*(f"{n}-0" for n in range(1, before + 1)), f"{before}-1", f"{before + 1}-1", f"{before + 2}-1"]
    assert (await store.read_damage(key)).found == []


@pytest.mark.parametrize("what", NEWER)
async def test_an_entry_of_a_newer_version_stops_the_model(two: Two, store: RedisStore, name: str, what: str) -> None:
    """It is not recorded as damage; the earlier rounds can be read."""
    await two.create()
    assert (await two.judge(await two.predict())).status_code == 200
    key = (await stored(store, name)).key
    await store.command("XADD", keys.log(*key), "2-0", *NEWER[what])
    await store.command("HINCRBY", keys.model(name), "rounds", 1)
    await two.refuse()
    assert (await store.read_damage(key)).found == []
    lines = await two.clients[0].get(f"/models/{name}/rounds", params={"limit": 1})
    assert (lines.status_code, len(lines.text.splitlines())) == (200, 1)


@pytest.mark.parametrize("lost", ["entry", "log"])
async def test_a_change_that_the_log_has_lost_is_neither_skipped_nor_awaited(
    two: Two, store: RedisStore, name: str, lost: str
) -> None:
    """A snapshot with such a change is of no use either, as this version cannot know its effect."""
    model = await played(store, name, "dense", 3, None)
    if lost == "entry":
        await store.command("HSET", keys.model(name), "changes", 1)
        await two.refuse(500, "store-corrupt")
        return
    await add_newer_change(store, model.key, "3-1")
    state, digest = bytes(encode_state(model.learner, model.learner.init())), await digest_of(store, name)
    assert await store.save_snapshot(model.key, Snapshot(3, state, change_count=1, digest=digest), 0) == 3
    await store.command("DEL", keys.log(*model.key))
    await two.refuse()


@pytest.mark.parametrize("what", ["field", "array", "hyperparameter"])
async def test_a_snapshot_of_a_newer_version_is_not_ignored(store: RedisStore, name: str, what: str) -> None:
    model = await played(store, name, "dense", 3, None)
    state = bytes(encode_state(model.learner, model.learner.init()))
    length = int.from_bytes(state[:8], "little")
    header = state[8 : 8 + length].decode().rstrip()
    if what == "array":
        header = header[:-1] + ',"zzz":{"dtype":"F64","shape":[0],"data_offsets":[END,END]}}'
        header = header.replace("END", str(len(state) - 8 - length))
    if what == "hyperparameter":
        header = header.replace('\\"algorithm\\":', '\\"aaa\\":1,\\"algorithm\\":')
    padded = header.ljust(-(-len(header) // 8) * 8).encode()
    newer = len(padded).to_bytes(8, "little") + padded + state[8 + length :]
    await store.save_snapshot(model.key, Snapshot(2, newer, digest=model.digest), 9)
    if what == "field":
        await store.command("HSET", keys.snapshot(*model.key), "form", "4")
    with pytest.raises(NewerVersionError):
        await predicted(session_of(store, model))
    assert (await store.read_damage(model.key)).found == []


async def test_a_damaged_damage_record_is_tolerated(store: RedisStore, name: str) -> None:
    """Invalid fields are skipped, and unreadable reasons become "unknown"."""
    model = await played(store, name, "dense", 3, None)
    assert await store.record_damage(model.key, [Damage(2, 2, 2, "noise")])
    for field, value in (("x", "y"), ("1-", ""), ("3-3", "nonsense"), (b"\xff", b"\xff")):
        await store.command("HSET", keys.damage(*model.key), field, value)
    found = (await store.read_damage(model.key)).found
    assert [(each.first, each.last, each.reason) for each in found] == [(2, 2, "noise"), (3, 3, "unknown")]
    await predicted(session_of(store, model))

"""The laws of upkeep: recorded rounds are folded in the background, and snapshots are written when due."""

import asyncio

import httpx2
import pytest

from learners.codec import encode_state
from service.background.upkeep import SNAPSHOT_AGE, SNAPSHOT_EVERY, SNAPSHOT_PAUSE
from service.rounds.sessions import ModelSession
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.service.replicas.altering import alter, stored
from tests.service.rounds.sessions import environment, judge, predict, session_cache, settled
from tests.service.sample_models import (
    CutShort,
    bits,
    make_model,
    play,
    sequential_fold,
    taught_by,
    true_state,
    whole_log,
)
from tests.service.store.scenario import Scenario
from tests.service.workers import Clock


async def test_upkeep_and_predictions_fold_each_round_once(store: RedisStore, name: str) -> None:
    await make_model(store, name)
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    for round_ in range(1, 6):
        await judge(session, await predict(session, 3))
        await asyncio.gather(sessions.maintain(), predict(session, 2), sessions.maintain(), predict(session, 1))
        assert session.replica.round_count == 3 * round_
        assert bits(session.replica.state) == bits(await true_state(store, name))


async def test_a_snapshot_is_written_after_snapshot_every_rounds(store: RedisStore, name: str) -> None:
    model, clock = await make_model(store, name), Clock()
    session = await session_cache(store, clock).find(name, "model")
    await play(store, model, SNAPSHOT_EVERY - 1)
    clock.now += SNAPSHOT_PAUSE
    ids = await predict(session, 1)
    await settled(session)
    assert await store.load_snapshot(model.key) is None
    await judge(session, ids)
    clock.now -= 0.001
    await predict(session, 1)
    await settled(session)
    assert await store.load_snapshot(model.key) is None
    clock.now += 0.001
    await predict(session, 1)
    await settled(session)
    state = sequential_fold(model, await whole_log(store, model.key))
    snapshot = await store.load_snapshot(model.key)
    assert snapshot is not None
    assert snapshot[:2] == (SNAPSHOT_EVERY, encode_state(model.learner, state))


async def test_a_snapshot_is_written_when_the_last_is_old(store: RedisStore, name: str) -> None:
    clock = Clock()
    model = await make_model(store, name)
    sessions = session_cache(store, clock)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 3))
    clock.now += SNAPSHOT_AGE - 1.0
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is None
    clock.now += 2.0
    await sessions.maintain()
    snapshot = await store.load_snapshot(model.key)
    assert snapshot is not None
    assert snapshot.round_count == 3
    before = await Scenario(store, model.key).figures()
    clock.now += 10 * SNAPSHOT_AGE
    await sessions.maintain()
    assert (await Scenario(store, model.key).figures()).snapshot_at == before.snapshot_at  # there were no new rounds


async def test_a_damaged_model_does_not_stop_the_upkeep_of_others(store: RedisStore, name: str) -> None:
    clock = Clock()
    sessions = session_cache(store, clock)
    failing = await make_model(store, f"{name}-failing")
    unexpected = sessions._open(ModelSession(taught_by(failing, CutShort(failing.learner)), environment(store)))
    await judge(unexpected, await predict(unexpected, 2))
    for each in (f"{name}-broken", f"{name}-whole"):
        model = await make_model(store, each)
        session = await sessions.find(each, "model")
        await judge(session, await predict(session, 2))
    broken = await sessions.find(f"{name}-broken", "model")
    broken.replica.state = None
    await store.save_snapshot(broken.model.key, Snapshot(2, b"nonsense", digest=broken.model.digest), 100)
    await store.command("XTRIM", keys.log(*broken.model.key), "MINID", "2-0")
    await sessions.find(f"{name}-whole", "model")
    clock.now += SNAPSHOT_AGE + 1.0
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is not None


async def test_warnings_of_the_learner_are_published(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await make_model(store, name, learner={"algorithm": "fastcb", "max_features": 2})
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    assert (await client.get(f"/models/{name}")).json()["warnings"] == []
    await judge(session, await predict(session, 5))
    await settled(session)
    await sessions.maintain()
    (warning,) = (await client.get(f"/models/{name}")).json()["warnings"]
    assert warning == "max_features: 2 of 2 rows are in use; 5 values of further features were ignored."


@pytest.mark.parametrize("value", [b"", b"{", b'{"a": 1}', b"[1, null]", b"\xff"])
async def test_damaged_warnings_count_as_none(store: RedisStore, name: str, value: bytes) -> None:
    await make_model(store, name)
    await store.command("HSET", keys.model(name), "warnings", value)
    assert (await stored(store, name)).warnings == ()


async def test_a_snapshot_is_due_after_changes(store: RedisStore, name: str) -> None:
    model, clock = await make_model(store, name), Clock()
    session = ModelSession(model, environment(store, clock))
    await judge(session, await predict(session, 1))
    await alter(store, model, 0, policies={"mode": "frozen"})
    await session.replica.catch_up()
    clock.now += SNAPSHOT_AGE + 1.0
    await session.upkeep.run()
    await settled(session)
    assert (session.replica.snapshot_rounds, session.replica.snapshot_changes) == (1, 1)
    await alter(store, model, 1, policies={"mode": "online"})
    await session.replica.catch_up()
    await session.upkeep.run()
    assert session.replica.snapshot_changes == 1
    clock.now += SNAPSHOT_AGE + 1.0
    await session.upkeep.run()
    await settled(session)
    assert session.replica.snapshot_changes == 2
    snapshot = await store.load_snapshot(model.key)
    assert snapshot is not None
    assert (snapshot.round_count, snapshot.change_count) == (1, 2)

"""The laws of upkeep: recorded rounds are folded in the background, and snapshots are written when due."""

import asyncio

import httpx2
import pytest

from learners.codec import encode_state
from service.app import end
from service.replicas.statistics import StatisticsAccumulator
from service.replicas.upkeep import FOLD_EVERY, SNAPSHOT_AGE, SNAPSHOT_EVERY, SNAPSHOT_PAUSE
from service.rounds.sessions import ModelSession
from service.store import keys
from service.store.base import Snapshot
from service.store.records.round_table import Table
from service.store.redis.redis_store import RedisStore
from tests.service.replicas.altering import alter
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
from tests.service.workers import Clock


async def test_recorded_rounds_are_folded_in_the_background(store: RedisStore, name: str) -> None:
    """After FOLD_EVERY recorded rounds the session folds them without a prediction."""
    await make_model(store, name)
    session = await session_cache(store).find(name, "model")
    ids = await predict(session, FOLD_EVERY)
    await judge(session, ids[:-1])
    await settled(session)
    assert session.replica.round_count == 0
    await judge(session, ids[-1:])
    await settled(session)
    assert session.replica.round_count == FOLD_EVERY
    assert bits(session.replica.state) == bits(await true_state(store, name))


async def test_single_rounds_are_folded_in_short_stretches(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn of upkeep folds at most FOLD_EVERY rounds, plus those that arrive while it reads."""
    stretches: list[int] = []
    take = StatisticsAccumulator.take

    def noted(statistics: StatisticsAccumulator, rounds: Table) -> None:
        stretches.append(len(rounds))
        take(statistics, rounds)

    monkeypatch.setattr(StatisticsAccumulator, "take", noted)
    await make_model(store, name)
    session = await session_cache(store).find(name, "model")
    for id_ in await predict(session, 6 * FOLD_EVERY):
        await judge(session, [id_])
    await settled(session)
    assert sum(stretches) == session.replica.round_count > 5 * FOLD_EVERY
    assert max(stretches) < 1.5 * FOLD_EVERY


async def test_upkeep_and_predictions_fold_each_round_once(store: RedisStore, name: str) -> None:
    """Concurrent upkeep and predictions see complete states."""
    await make_model(store, name)
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    for round_ in range(1, 6):
        await judge(session, await predict(session, 3))
        await asyncio.gather(sessions.maintain(), predict(session, 2), sessions.maintain(), predict(session, 1))
        assert session.replica.round_count == 3 * round_
        assert bits(session.replica.state) == bits(await true_state(store, name))


async def test_upkeep_folds_even_a_single_round(store: RedisStore, name: str) -> None:
    """Regular upkeep folds every round that this worker has recorded."""
    await make_model(store, name)
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 1))
    await sessions.maintain()
    assert session.replica.round_count == 1


async def test_a_snapshot_is_written_after_snapshot_every_rounds(store: RedisStore, name: str) -> None:
    """SNAPSHOT_EVERY rounds trigger a snapshot in the background once SNAPSHOT_PAUSE seconds have passed."""
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
    """After SNAPSHOT_AGE seconds, and not before, upkeep writes a snapshot of any new rounds."""
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


async def test_no_snapshot_is_written_without_new_rounds(store: RedisStore, name: str) -> None:
    """Time alone triggers no snapshot."""
    clock = Clock()
    model = await make_model(store, name)
    sessions = session_cache(store, clock)
    await predict(await sessions.find(name, "model"), 2)
    clock.now += 10 * SNAPSHOT_AGE
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is None


async def test_a_damaged_model_does_not_stop_the_upkeep_of_others(store: RedisStore, name: str) -> None:
    """A model whose snapshot cannot be read does not prevent the others' snapshots."""
    clock = Clock()
    sessions = session_cache(store, clock)
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


async def test_an_unexpected_error_does_not_stop_the_upkeep(store: RedisStore, name: str) -> None:
    """After an error in one model, upkeep continues with the others and runs again."""
    sessions = session_cache(store)
    model = await make_model(store, f"{name}-broken")
    broken = sessions._open(ModelSession(taught_by(model, CutShort(model.learner)), environment(store)))
    await make_model(store, f"{name}-whole")
    whole = await sessions.find(f"{name}-whole", "model")
    for session in (broken, whole):
        await judge(session, await predict(session, 2))
    await sessions.maintain()
    assert broken.replica.round_count == 0
    assert whole.replica.round_count == 2


async def test_upkeep_ends_though_it_swallows_a_cancellation() -> None:
    """A worker stops even if its upkeep continues after the first cancellation, as it may in Python 3.11."""
    swallowed = asyncio.Event()

    async def upkeep() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(upkeep())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), timeout=60.0)
    assert task.cancelled()
    assert swallowed.is_set()


async def test_warnings_of_the_learner_are_published(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """A limit that the learner has reached appears in the model's description, on every worker."""
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
    """Nothing depends on stored warnings, so a model with unreadable ones can be read."""
    await make_model(store, name)
    await store.command("HSET", keys.model(name), "warnings", value)
    stored = await store.get_model(name)
    assert stored is not None
    assert stored.warnings == ()


async def test_a_snapshot_is_due_after_changes(store: RedisStore, name: str) -> None:
    """A model that changes often is snapshot, so that later workers need not make its changes again."""
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

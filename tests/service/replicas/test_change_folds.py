"""The laws of folds with changes, rollbacks and resets: every worker reaches the same state, to the bit."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from learners.codec import decode_state
from learners.growth import with_more_labels
from service.errors import StoreCorruptError
from service.models.changes import Change, FromSnapshot, StoredLabels
from service.models.model import Model
from service.replicas.replica import Replica
from service.rounds.sessions import ModelSession
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Keeping, KeptNote, Snapshot
from tests.service.replicas.altering import alter, current, fresh, replace_change
from tests.service.rounds.sessions import environment, judge, predict
from tests.service.sample_models import bits, make_model, one_by_one, play, whole_log
from tests.service.store.samples import digest_of
from tests.service.workers import numbered

FROM_MINE = FromSnapshot(snapshot="mine")
ALTERATIONS: list[dict[str, Any]] = [
    {"policies": {"window_seconds": 500.0}},
    {"policies": {"mode": "frozen"}},
    {"policies": {"mode": "logging"}},
    {"policies": {"mode": "online"}},
    {"policies": {"holdout": {"fraction": 0.5, "policy": "uniform"}}},
    {"policies": {"holdout": None}},
    {"state": "initial"},
]


def sessions_of(store: RedisStore, model: Model, n: int) -> list[ModelSession]:
    return [ModelSession(model, replace(environment(store), new_id=numbered(f"w{i}"))) for i in range(n)]


def mode_of(session: ModelSession) -> str:
    return session.model.definition.mode


async def keep(store: RedisStore, replica: Replica, id_: str) -> None:
    model, snapshot = await replica.current()
    note = KeptNote(id_, snapshot.round_count, snapshot.change_count, 1.0)
    assert await store.keep_snapshot(model.key, note, snapshot) is Keeping.DONE


async def drop(store: RedisStore, model: Model) -> Keeping:
    return await store.drop_kept(model.key, "mine", await digest_of(store, model.name), 1)


@pytest.mark.parametrize("algorithm", ["soba-diagonal", "fastcb", "squarecb", "gaptron", "uniform", "banditron"])
@pytest.mark.parametrize("seed", range(2))
async def test_any_interleaving_gives_every_worker_the_same_state(
    store: RedisStore, name: str, algorithm: str, seed: int
) -> None:
    """Workers that predict, judge and snapshot between changes agree with a fold from the start."""
    model, rng = await make_model(store, name, learner={"algorithm": algorithm}), np.random.default_rng(seed)
    sessions, opened, kept, made = sessions_of(store, model, 3), list[str](), list[str](), 0
    for step in range(70):
        session = sessions[rng.integers(3)]
        match rng.integers(7):
            case 0 | 1:
                opened += await predict(session, int(rng.integers(1, 4)))
            case 2 | 3 if opened:
                some = int(rng.integers(1, len(opened) + 1))
                await judge(session, opened[:some])
                opened = opened[some:]
            case 4:
                what = ALTERATIONS[rng.integers(len(ALTERATIONS))]
                if rng.random() < 0.5 and model.learner.labels_grow:
                    what = {"labels": StoredLabels(add=(f"l{made}", f"m{made}"))}
                if rng.random() < 0.3 and kept:
                    what = {"state": FromSnapshot(snapshot=kept[rng.integers(len(kept))])}
                await alter(store, model, made, **what)
                made += 1
            case 5:
                await session.replica.catch_up()
                await session.replica.snapshot()
            case 6 if len(kept) < 5:
                kept.append(f"s{step}")
                await keep(store, session.replica, kept[-1])
    for session in sessions:
        await session.replica.catch_up()
    replicas = [session.replica for session in sessions]
    replicas += [await fresh(store, model), await fresh(store, await current(store, name))]
    await store.command("DEL", keys.snapshot(*model.key))
    replicas.append(await fresh(store, model))
    assert {(replica.round_count, replica.change_count) for replica in replicas} == {(replicas[0].round_count, made)}
    assert len({json.dumps([each.hex() for each in bits(replica.state)]) for replica in replicas}) == 1
    assert len({replica.statistics.counts().encode() for replica in replicas}) == 1
    assert len({replica.model.definition.model_dump_json() for replica in replicas}) == 1


async def test_a_snapshot_before_a_change_does_not_contain_it(store: RedisStore, name: str) -> None:
    """A worker that starts from a snapshot makes the later changes, even if the log before it is trimmed."""
    model = await make_model(store, name, retain_rounds=0)
    session = ModelSession(model, environment(store))
    for number in range(4):
        await judge(session, await predict(session, 150))
        await session.replica.catch_up()
        await session.replica.snapshot()
        await alter(store, model, number, policies={"window_seconds": 100.0 + number})
    await judge(session, await predict(session, 5))
    await session.replica.catch_up()
    assert (await whole_log(store, model.key))[0].last_round > 300
    later = await fresh(store, model)
    assert (later.snapshot_rounds, later.round_count, later.change_count) == (600, 605, 4)
    assert later.model.definition.window_seconds == 103.0
    assert bits(later.state) == bits(session.replica.state)


async def test_a_log_with_another_change_is_another_log(store: RedisStore, name: str) -> None:
    """A state that has seen a change which the log has lost is discarded, even if the counts agree."""
    model = await make_model(store, name)
    session = ModelSession(model, environment(store))
    await judge(session, await predict(session, 3))
    opened = await predict(session, 3)
    await alter(store, model, 0, policies={"mode": "frozen"})
    await predict(session, 1)
    assert mode_of(session) == "frozen"
    await session.replica.catch_up()
    frozen = bits(session.replica.state)
    await replace_change(store, model, '{"policies":{"mode":"online"},"at":9.0}')
    await judge(session, opened)
    await session.replica.catch_up()
    assert mode_of(session) == "online"
    assert bits(session.replica.state) == bits((await fresh(store, await current(store, name))).state) != frozen


async def test_a_prediction_before_a_change_is_joined_after_it(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    one, other = sessions_of(store, model, 2)
    early = await predict(one, 2)
    await alter(store, model, 0, policies={"window_seconds": 77.0})
    await judge(other, early)
    tail = await store.read_tail(model.key, 0, 10)
    assert ([change.round_count for change in tail.changes], tail.round_count) == ([0], 2)
    table = model.choice.records.table([entry.payload for entry in tail.entries])
    assert table["changes_seen"].tolist() == [0, 0]
    await one.replica.catch_up()
    assert bits(one.replica.state) == bits((await fresh(store, model)).state)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_snapshot_with_unknown_changes_is_corrupt(store: RedisStore, name: str, count: int) -> None:
    model = await make_model(store, name)
    await store.save_snapshot(model.key, Snapshot(0, b"", change_count=count), 0)
    with pytest.raises(Exception, match="lacks change 1"):
        await fresh(store, model)


def test_a_change_is_one_line() -> None:
    change = Change(labels=StoredLabels(add=('a\n"\\\u2028\r\0é',)), at=1.0, by="k")
    assert "\n" not in change.encode()
    assert Change.model_validate_json(change.encode()) == change


async def test_changes_at_one_place_of_the_log_are_made_together(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica reads the definition a few times, however many changes follow each other."""
    model, number = await make_model(store, name, learner={"algorithm": "fastcb"}), itertools.count()
    session = ModelSession(model, environment(store))
    await judge(session, await predict(session, 3))
    for i in range(20):
        await alter(store, model, next(number), labels=StoredLabels(add=(f"l{i}",), retire=(f"l{i - 1}",) if i else ()))
        await session.replica.catch_up()
        if i == 10:
            await alter(store, model, next(number), state="initial")
            await session.replica.catch_up()
    await judge(session, await predict(session, 3))
    await session.replica.catch_up()
    reads, get_model = list[str](), store.get_model

    async def counted(asked: str) -> Any:
        reads.append(asked)
        return await get_model(asked)

    monkeypatch.setattr(store, "get_model", counted)
    other = await fresh(store, model)
    assert (other.round_count, other.change_count) == (6, 21)
    assert bits(other.state) == bits(session.replica.state)
    assert other.statistics.counts().encode() == session.replica.statistics.counts().encode()
    assert len(reads) <= 3


# --- rollback and reset


@pytest.mark.parametrize("algorithm", ["soba-diagonal", "fastcb", "gaptron"])
@pytest.mark.parametrize("state", [FROM_MINE, "initial"], ids=str)
async def test_a_model_continues_from_the_state(store: RedisStore, name: str, algorithm: str, state: Any) -> None:
    """The state after later rounds is their fold from the kept or the initial state, grown by added labels."""
    model = await make_model(store, name, learner={"algorithm": algorithm})
    await play(store, model, 7)
    await keep(store, await fresh(store, model), "mine")
    kept = await store.load_kept(model.key, "mine")
    assert kept is not None
    await play(store, model, 5, seed=2)
    labels = StoredLabels(add=("purple",), retire=("red",)) if model.learner.labels_grow else None
    await alter(store, model, 0, labels=labels, policies={"window_seconds": 7.0})
    await alter(store, model, 1, state=state)
    await play(store, await current(store, name), 6, seed=3)
    replica, after = await fresh(store, model), await current(store, name)
    expected = after.learner.init()
    if state != "initial":
        then = decode_state(model.learner, kept.state)
        expected = then if labels is None else with_more_labels(model.learner, after.learner, then)
    for record in one_by_one(await whole_log(store, model.key))[12:]:
        expected = after.learner.fold(expected, after.rounds_of(after.choice.records.rows([record])))
    assert bits(replica.state) == bits(expected)
    assert (replica.round_count, replica.statistics.counts().rounds) == (18, 18)
    assert after.definition.window_seconds == 7.0
    assert after.retired == (frozenset() if labels is None else {"red"})


async def test_a_snapshot_after_the_change_contains_it(store: RedisStore, name: str) -> None:
    """With a trimmed log, a new worker starts from the snapshot, and needs the kept one no longer."""
    model = await make_model(store, name, retain_rounds=0)
    session = ModelSession(model, environment(store))
    await judge(session, await predict(session, 20))
    await keep(store, session.replica, "mine")
    await judge(session, await predict(session, 20))
    await alter(store, model, 0, state=FROM_MINE)
    assert await drop(store, model) is Keeping.NEEDED
    for _ in range(2):
        await judge(session, await predict(session, 200))
        await session.replica.catch_up()
        await session.replica.snapshot()
    assert await drop(store, model) is Keeping.DONE
    assert bits((await fresh(store, model)).state) == bits(session.replica.state)


@pytest.mark.parametrize("damage", ["missing", "noise"])
async def test_a_damaged_kept_snapshot_stops_the_fold(store: RedisStore, name: str, damage: str) -> None:
    """A worker that needs it refuses the model; one that has folded the change goes on."""
    model = await make_model(store, name)
    await play(store, model, 3)
    await keep(store, await fresh(store, model), "mine")
    await alter(store, model, 0, state=FROM_MINE)
    ahead, key = await fresh(store, model), keys.kept_snapshot(*model.key, "mine")
    await store.command(*(("DEL", key) if damage == "missing" else ("HSET", key, "000000", "noise")))
    with pytest.raises(StoreCorruptError, match="kept snapshot 'mine'"):
        await fresh(store, model)
    await play(store, await current(store, name), 1, seed=2)
    await ahead.catch_up()
    assert ahead.round_count == 4

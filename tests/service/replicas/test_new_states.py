"""The laws of rollback and reset: every worker continues from the same state, at the same place of the log."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from learners.codec import decode_state
from learners.growth import with_more_labels
from learners.registry import ALL_LEARNERS
from service.errors import StoreCorruptError
from service.models.changes import Change, FromSnapshot, StoredLabels
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.rounds.sessions import ModelSession
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Keeping, KeptNote
from tests.service.rounds.sessions import environment, judge, predict
from tests.service.sample_models import COMPUTE, LABELS, bits, make_model, one_by_one, play, whole_log
from tests.service.store.samples import digest_of
from tests.service.workers import numbered

FROM_MINE = FromSnapshot(snapshot="mine")


async def alter(store: RedisStore, model: Model, number: int, **what: Any) -> None:
    """Make a change of a model."""
    change = Change(at=float(number), **what)
    assert await store.change_model(model.key, await digest_of(store, model.name), change.encode(), "{}")


async def keep(store: RedisStore, replica: Replica, id_: str) -> Keeping:
    """Keep the state of a replica."""
    model, snapshot = await replica.current()
    note = KeptNote(id_, snapshot.round_count, snapshot.change_count, 1.0)
    return await store.keep_snapshot(model.key, note, snapshot)


async def fresh(store: RedisStore, model: Model) -> Replica:
    """Return a new replica that has folded the log."""
    replica = Replica(model, store, COMPUTE)
    await replica.catch_up()
    return replica


async def current(store: RedisStore, name: str) -> Model:
    """Return a model after its last change."""
    stored = await store.get_model(name)
    assert stored is not None
    return stored_model(stored)


@pytest.mark.parametrize("algorithm", ["soba-diagonal", "fastcb", "gaptron"])
@pytest.mark.parametrize("state", [FROM_MINE, "initial"], ids=str)
async def test_a_model_continues_from_the_state(store: RedisStore, name: str, algorithm: str, state: Any) -> None:
    """The state after later rounds is their fold from the kept or the initial state, grown by added labels."""
    model = await make_model(store, name, learner={"algorithm": algorithm})
    await play(store, model, 7)
    assert await keep(store, await fresh(store, model), "mine") is Keeping.DONE
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


@pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))
async def test_every_learner_continues_from_either_state(store: RedisStore, name: str, algorithm: str) -> None:
    """A rollback gives the state in the kept snapshot, and a reset the initial one, bit for bit."""
    model = await make_model(store, name, learner={"algorithm": algorithm}, labels=LABELS[:3])
    await play(store, model, 5)
    replica = await fresh(store, model)
    known = bits(replica.state)
    assert await keep(store, replica, "mine") is Keeping.DONE
    await play(store, model, 3, seed=2)
    for number, (state, expected) in enumerate([(FROM_MINE, known), ("initial", bits(model.learner.init()))]):
        await alter(store, model, number, state=state)
        await replica.catch_up()
        assert bits(replica.state) == bits((await fresh(store, model)).state) == expected


@pytest.mark.parametrize("algorithm", ["soba-diagonal", "squarecb"])
@pytest.mark.parametrize("seed", range(3))
async def test_any_interleaving_of_new_states_gives_every_worker_the_same_state(
    store: RedisStore, name: str, algorithm: str, seed: int
) -> None:
    """Workers agree with a fold from the start, with a trimmed log, and without a snapshot."""
    model, rng = await make_model(store, name, learner={"algorithm": algorithm}), np.random.default_rng(seed)
    sessions = [ModelSession(model, replace(environment(store), new_id=numbered(f"w{i}"))) for i in range(2)]
    opened: list[str] = []
    kept: list[str] = []
    made = 0
    for step in range(50):
        session = sessions[rng.integers(2)]
        match rng.integers(7):
            case 0 | 1:
                opened += await predict(session, int(rng.integers(1, 4)))
            case 2 if opened:
                await judge(session, opened[:2])
                opened = opened[2:]
            case 3:
                kept.append(f"s{step}")
                assert await keep(store, session.replica, kept[-1]) is Keeping.DONE
            case 4 if kept:
                await alter(store, model, made, state=FromSnapshot(snapshot=kept[rng.integers(len(kept))]))
                made += 1
            case 5:
                labels = StoredLabels(add=(f"l{made}",))
                await alter(store, model, made, **({"state": "initial"} if rng.random() < 0.5 else {"labels": labels}))
                made += 1
            case 6:
                await session.replica.catch_up()
                await session.replica.snapshot()
    for session in sessions:
        await session.replica.catch_up()
    replicas = [session.replica for session in sessions]
    replicas += [await fresh(store, model), await fresh(store, await current(store, name))]
    await store.command("DEL", keys.snapshot(*model.key))
    replicas.append(await fresh(store, model))
    assert {(replica.round_count, replica.change_count) for replica in replicas} == {(replicas[0].round_count, made)}
    assert len({json.dumps([each.hex() for each in bits(replica.state)]) for replica in replicas}) == 1
    assert len({replica.statistics.counts().encode() for replica in replicas}) == 1


async def test_a_snapshot_after_the_change_contains_it(store: RedisStore, name: str) -> None:
    """With a trimmed log, a new worker starts from the snapshot, and needs the kept one no longer."""
    model = await make_model(store, name, retain_rounds=0)
    session = ModelSession(model, environment(store))
    await judge(session, await predict(session, 20))
    assert await keep(store, session.replica, "mine") is Keeping.DONE
    await judge(session, await predict(session, 20))
    await alter(store, model, 0, state=FROM_MINE)
    assert await store.drop_kept(model.key, "mine", await digest_of(store, name), 1) is Keeping.NEEDED
    for _ in range(2):
        await judge(session, await predict(session, 200))
        await session.replica.catch_up()
        await session.replica.snapshot()
    assert await store.drop_kept(model.key, "mine", await digest_of(store, name), 1) is Keeping.DONE
    assert bits((await fresh(store, model)).state) == bits(session.replica.state)


@pytest.mark.parametrize("damage", ["missing", "noise"])
async def test_a_damaged_kept_snapshot_stops_the_fold(store: RedisStore, name: str, damage: str) -> None:
    """A worker that needs it refuses the model; one that has folded the change goes on."""
    model = await make_model(store, name)
    await play(store, model, 3)
    assert await keep(store, await fresh(store, model), "mine") is Keeping.DONE
    await alter(store, model, 0, state=FROM_MINE)
    ahead, key = await fresh(store, model), keys.kept_snapshot(*model.key, "mine")
    await store.command(*(("DEL", key) if damage == "missing" else ("HSET", key, "000000", "noise")))
    with pytest.raises(StoreCorruptError, match="kept snapshot 'mine'"):
        await fresh(store, model)
    await play(store, await current(store, name), 1, seed=2)
    await ahead.catch_up()
    assert ahead.round_count == 4

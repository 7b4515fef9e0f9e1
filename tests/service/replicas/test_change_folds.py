"""The laws of folds with changes: every worker reaches the same state, to the bit, wherever changes fall."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.models.changes import Change, StoredLabels
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.rounds.sessions import ModelSession
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.service.replicas.altering import alter, replace_change
from tests.service.rounds.sessions import environment, judge, predict
from tests.service.sample_models import COMPUTE, bits, make_model
from tests.service.workers import numbered

ALTERATIONS: list[dict[str, Any]] = [
    {"policies": {"window_seconds": 500.0}},
    {"policies": {"mode": "frozen"}},
    {"policies": {"mode": "logging"}},
    {"policies": {"mode": "online"}},
    {"policies": {"holdout": {"fraction": 0.5, "policy": "uniform"}}},
    {"policies": {"holdout": None}},
]


def next_labels(number: int, *, grows: bool) -> StoredLabels:
    """Return labels to add, if they may grow, and the one added before to retire."""
    if not grows:
        return StoredLabels()
    return StoredLabels(add=(f"l{number}", f"m{number}"))


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


@pytest.mark.parametrize("algorithm", ["soba-diagonal", "fastcb", "squarecb", "gaptron", "uniform", "banditron"])
@pytest.mark.parametrize("seed", range(3))
async def test_any_interleaving_gives_every_worker_the_same_state(
    store: RedisStore, name: str, algorithm: str, seed: int
) -> None:
    """Workers that predict, judge and snapshot between changes agree with a fold from the start."""
    model, rng = await make_model(store, name, learner={"algorithm": algorithm}), np.random.default_rng(seed)
    sessions = [ModelSession(model, replace(environment(store), new_id=numbered(f"w{i}"))) for i in range(3)]
    opened: list[str] = []
    made = 0
    for _ in range(60):
        session = sessions[rng.integers(3)]
        match rng.integers(6):
            case 0 | 1:
                opened += await predict(session, int(rng.integers(1, 4)))
            case 2 | 3 if opened:
                some = int(rng.integers(1, len(opened) + 1))
                await judge(session, opened[:some])
                opened = opened[some:]
            case 4:
                what = ALTERATIONS[rng.integers(len(ALTERATIONS))]
                if rng.random() < 0.5:
                    what = {"labels": next_labels(made, grows=model.learner.labels_grow)}
                await alter(store, model, made, **what)
                made += 1
            case 5:
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
    assert (await store.read_tail(model.key, 0, 10_000)).entries[0].last_round > 300
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


def mode_of(session: ModelSession) -> str:
    """Return the mode of the model that a session has."""
    return session.model.definition.mode


async def test_a_prediction_before_a_change_is_joined_after_it(store: RedisStore, name: str) -> None:
    """A prediction remembers the changes that it has seen; its feedback comes after the change in the log."""
    model = await make_model(store, name)
    one, other = (ModelSession(model, replace(environment(store), new_id=numbered(f"w{i}"))) for i in range(2))
    early = await predict(one, 2)
    await alter(store, model, 0, policies={"window_seconds": 77.0})
    await judge(other, early)
    tail = await store.read_tail(model.key, 0, 10)
    assert [change.round_count for change in tail.changes] == [0]
    assert tail.round_count == 2
    table = model.choice.records.table([entry.payload for entry in tail.entries])
    assert table["changes_seen"].tolist() == [0, 0]
    await one.replica.catch_up()
    assert bits(one.replica.state) == bits((await fresh(store, model)).state)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_snapshot_with_unknown_changes_is_corrupt(store: RedisStore, name: str, count: int) -> None:
    """A snapshot that counts more changes than the model has is an error, not a state."""
    model = await make_model(store, name)
    await store.save_snapshot(model.key, Snapshot(0, b"", change_count=count), 0)
    with pytest.raises(Exception, match="lacks change 1"):
        await fresh(store, model)


def test_a_change_is_one_line() -> None:
    """Any label fits into the history, which has one line for each change."""
    strange = 'a\n"\\\u2028\r\0é'
    change = Change(labels=StoredLabels(add=(strange,)), at=1.0, by="k")
    assert "\n" not in change.encode()
    assert Change.model_validate_json(change.encode()) == change


async def test_changes_at_one_place_of_the_log_are_made_together(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica reads the definition a few times, however many changes follow each other; its state is the same."""
    model, number = await make_model(store, name, learner={"algorithm": "fastcb"}), itertools.count()
    session = ModelSession(model, environment(store))
    await judge(session, await predict(session, 3))
    for i in range(40):
        await alter(store, model, next(number), labels=StoredLabels(add=(f"l{i}",), retire=(f"l{i - 1}",) if i else ()))
        await session.replica.catch_up()
        if i == 20:
            await alter(store, model, next(number), state="initial")
            await session.replica.catch_up()
    await judge(session, await predict(session, 3))
    await session.replica.catch_up()
    reads, get_model = 0, store.get_model

    async def counted(asked: str) -> Any:
        nonlocal reads
        reads += 1
        return await get_model(asked)

    monkeypatch.setattr(store, "get_model", counted)
    other = await fresh(store, model)
    assert (other.round_count, other.change_count) == (6, 41)
    assert bits(other.state) == bits(session.replica.state)
    assert other.statistics.counts().encode() == session.replica.statistics.counts().encode()
    assert reads <= 3

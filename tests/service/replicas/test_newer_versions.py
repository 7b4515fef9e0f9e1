"""The laws of snapshots, definitions and damage records that are damaged or come from a newer version."""

from typing import Any

import pytest

from learners.codec import encode_state
from service.errors import NewerVersionError, StoreCorruptError
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Damage, Snapshot
from tests.service.damaging import damaged_rounds, played, predicted, session_of, sound_fold
from tests.service.sample_models import (
    COMPUTE,
    bits,
    make_model,
    whole_log,
)

N = 9


# --- snapshots


@pytest.mark.parametrize("cut", [0, 5, 40, -1, -8])
async def test_a_damaged_snapshot_is_replaced(store: RedisStore, name: str, cut: int) -> None:
    """If the log has every round, a worker folds it, reports the snapshot as damaged, and replaces it."""
    model = await played(store, name, "dense", N, None)
    whole = await whole_log(store, model.key)
    state = bytes(encode_state(model.learner, model.learner.init()))
    await store.save_snapshot(model.key, Snapshot(6, state[:cut], digest=model.digest), 100)
    session = session_of(store, model)
    await predicted(session)
    assert bits(session.replica.state) == sound_fold(model, whole, set())
    (found,) = (await store.read_damage(model.key)).found
    assert (found.snapshot, found.last) == (True, 6)
    assert name in await store.list_damaged(10_000)
    await session.replica.snapshot()
    other = Replica(model, store, COMPUTE)
    await other.catch_up()
    assert other.snapshot_rounds == N


# --- content of a newer version


async def test_an_entry_of_a_newer_version_is_not_skipped(store: RedisStore, name: str) -> None:
    """An entry of a newer version stops the model in this worker and is not recorded as damage."""
    model = await played(store, name, "dense", 3, None)
    session = session_of(store, model)
    await predicted(session)
    await store.command("XADD", keys.log(*model.key), "4-0", "p", "x", "r", "y", "s", "z")
    await store.command("HINCRBY", keys.model(name), "rounds", 1)
    for each in (session, session_of(store, model)):
        with pytest.raises(NewerVersionError):
            await predicted(each)
    assert await damaged_rounds(store, model) == set()


@pytest.mark.parametrize("what", ["field", "array", "hyperparameter"])
async def test_a_snapshot_of_a_newer_version_is_not_ignored(store: RedisStore, name: str, what: str) -> None:
    """A snapshot with an unknown field, array or hyperparameter stops the model in this worker."""
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
    await store.save_snapshot(
        model.key, Snapshot(2, len(padded).to_bytes(8, "little") + padded + state[8 + length :], digest=model.digest), 9
    )
    if what == "field":
        await store.command("HSET", keys.snapshot(*model.key), "form", "4")
    with pytest.raises(NewerVersionError):
        await predicted(session_of(store, model))
    assert (await store.read_damage(model.key)).found == []


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"labels":', '"later":1,"labels":', NewerVersionError),
        ('"soba-diagonal"', '"soba-diagonel"', NewerVersionError),
        ('"algorithm"', '"later":1,"algorithm"', NewerVersionError),
        ('"kind":"dense"', '"kind":"later"', NewerVersionError),
        ('"labels":', '"lobels":', NewerVersionError),
        ('"labels":["red","green"', '"labels":["red","red"', StoreCorruptError),
        ("{", "", StoreCorruptError),
    ],
)
async def test_a_definition_is_damaged_or_newer(store: RedisStore, name: str, old: str, new: str, error: Any) -> None:
    """Unknown content is a newer version's; missing content or invalid JSON is damage."""
    model = await make_model(store, name)
    text = model.definition.model_dump_json()
    assert old in text
    await store.command("HSET", keys.model(name), "definition", text.replace(old, new, 1))
    stored = await store.get_model(name)
    assert stored is not None
    with pytest.raises(error):
        stored_model(stored)


# --- the damage record


async def test_a_damaged_damage_record_is_tolerated(store: RedisStore, name: str) -> None:
    """Invalid fields are skipped, and unreadable reasons become "not known"."""
    model = await played(store, name, "dense", 3, None)
    assert await store.record_damage(model.key, [Damage(2, 2, 2, "noise")])
    for field, value in (("x", "y"), ("1-", ""), ("3-3", "nonsense"), (b"\xff", b"\xff")):
        await store.command("HSET", keys.damage(*model.key), field, value)
    found = (await store.read_damage(model.key)).found
    assert [(each.first, each.last, each.reason) for each in found] == [(2, 2, "noise"), (3, 3, "not known")]
    await predicted(session_of(store, model))

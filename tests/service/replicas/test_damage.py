"""The laws of damage to a log: every worker skips what cannot be read, and the model stays available."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from service.errors import StoreCorruptError
from service.models.model import Model
from service.prediction_id import PredictionId
from service.registry.round_log import LogReader
from service.rounds.feedback import feedback_rules
from service.store import keys
from service.store.records.layout import ROUND
from service.store.redis.redis_store import RedisStore
from service.store.values import Feedback
from tests.service.damaging import (
    KINDS,
    NAN,
    changed,
    damaged_rounds,
    played,
    predicted,
    regions,
    rewrite,
    session_of,
    sound_fold,
)
from tests.service.sample_models import (
    COMPUTE,
    bits,
    definition,
    make_model,
    one_by_one,
    play,
    sequential_fold,
    whole_log,
)
from tests.service.workers import START
from toolkit.repair import search

N = 9
NOISE = b"\xff" * 30  # at byte 60 of an entry of one round
Fault = Callable[[RedisStore, Model], Awaitable[object]]


async def forget_damage(store: RedisStore, model: Model) -> None:
    await store.command("DEL", keys.damage(*model.key))
    await store.command("HDEL", keys.model(model.name), "damage", "damaged")


async def damage_rounds(store: RedisStore, model: Model, *bad: int) -> None:
    """Damage entries of one round."""
    whole = await whole_log(store, model.key)
    await rewrite(store, model, [changed(each, 60, NOISE) if each.last_round in bad else each for each in whole])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("blocks", "place"), [(None, 1), (3, 0), (3, -1)])
async def test_every_worker_skips_a_damaged_round(
    store: RedisStore, name: str, kind: str, blocks: int | None, place: int
) -> None:
    """With any field of a round destroyed, every worker answers with the state of all other rounds."""
    model = await played(store, name, kind, N, blocks)
    whole = await whole_log(store, model.key)
    for region, (begin, end) in regions(model, whole[place]).items():
        await forget_damage(store, model)
        noise = b"\xff" * (end - begin - 1) + b"\x7f"  # NaN, or a large number
        damaged = changed(whole[place], begin, noise)
        await rewrite(store, model, [damaged if entry == whole[place] else entry for entry in whole])
        first, second = session_of(store, model), session_of(store, model)
        answers = await predicted(first) + await predicted(second)
        assert {answer.rounds_seen for answer in answers} == {N}, region
        bad = await damaged_rounds(store, model)
        assert bad == {whole[place].last_round - len(one_by_one([whole[place]])) + 1}, region
        assert bits(first.replica.state) == bits(second.replica.state) == sound_fold(model, whole, bad), region
        assert first.replica.statistics.counts() == second.replica.statistics.counts()
        assert first.replica.statistics.counts().rounds == N - len(bad)


@pytest.mark.parametrize("kind", KINDS)
async def test_any_byte_may_be_damaged(store: RedisStore, name: str, kind: str) -> None:
    """With any byte of the log changed, every worker answers with the same finite state."""
    model = await played(store, name, kind, N, 4)
    whole, rng = await whole_log(store, model.key), np.random.default_rng(7)
    for _ in range(30):
        await forget_damage(store, model)
        place = int(rng.integers(len(whole)))
        at, new = int(rng.integers(len(whole[place].payload))), bytes([int(rng.integers(256))])
        await rewrite(store, model, [changed(entry, at, new) if i == place else entry for i, entry in enumerate(whole)])
        first, second, third = (session_of(store, model) for _ in range(3))
        await predicted(first)
        await predicted(second)
        await first.replica.snapshot()
        await predicted(third)
        assert bits(first.replica.state) == bits(second.replica.state) == bits(third.replica.state)
        assert all(np.isfinite(array).all() for array in first.replica.state)
        await store.command("DEL", keys.snapshot(*model.key))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0", b"\xff" * 100, b"\0" * 4000, None],
    ids=["empty", "one-byte", "noise", "zeros", "name of the block"],
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
async def test_an_entry_that_cannot_be_split_loses_all_its_rounds(
    store: RedisStore, name: str, kind: str, payload: bytes | None, place: int
) -> None:
    model = await played(store, name, kind, N, 3)
    whole = await whole_log(store, model.key)
    damaged: list[Any] = [*whole]
    if payload is None:  # an impossible name of its block
        number, _, *rest = whole[place]
        damaged[place] = (number, [b"\xff\xfe", b"", b"a b"][place], *rest)
    else:
        damaged[place] = whole[place]._replace(payload=payload)
    await rewrite(store, model, damaged)
    session = session_of(store, model)
    await predicted(session)
    bad = await damaged_rounds(store, model)
    assert bad == set(range(whole[place].last_round - 2, whole[place].last_round + 1))
    assert bits(session.replica.state) == sound_fold(model, whole, bad)


# --- workers that folded rounds before their damage


@pytest.mark.parametrize("snapshot", [None, 5, N], ids=["none", "before", "after"])
async def test_workers_agree_after_damage_to_folded_rounds(store: RedisStore, name: str, snapshot: int | None) -> None:
    """A worker that folded a round before its damage reaches the same state as workers that could not."""
    model = await make_model(store, name)
    old = session_of(store, model)
    for n, seed in ((5, 1), (4, 2)):
        await play(store, model, n, seed)
        await predicted(old)
        if snapshot == old.replica.round_count:
            await old.replica.snapshot()
    whole = await whole_log(store, model.key)
    await damage_rounds(store, model, 8)
    new = session_of(store, model)
    await predicted(new)
    await old.replica.snapshot()  # has a round that the others skip: must not be kept
    await predicted(old)
    assert await damaged_rounds(store, model) == (set() if snapshot == N else {8})
    later = session_of(store, model)
    await predicted(later)
    assert bits(old.replica.state) == bits(new.replica.state) == bits(later.replica.state)
    assert bits(old.replica.state) == sound_fold(model, whole, await damaged_rounds(store, model))
    await play(store, model, 3, seed=3)
    await predicted(old)
    await old.replica.snapshot()
    assert old.replica.snapshot_rounds == N + 3
    for session in (new, session_of(store, model)):
        await predicted(session)
        assert bits(session.replica.state) == bits(old.replica.state)


async def test_a_newer_snapshot_replaces_damaged_rounds(store: RedisStore, name: str) -> None:
    """A lagging worker loads the snapshot instead of the damaged rounds that the snapshot has seen intact."""
    model = await make_model(store, name)
    ahead, lagging = session_of(store, model), session_of(store, model)
    await play(store, model, 2)
    await predicted(lagging)
    await play(store, model, 4, seed=2)
    await predicted(ahead)
    await ahead.replica.snapshot()
    whole = await whole_log(store, model.key)
    await damage_rounds(store, model, 4)
    await predicted(lagging)
    assert await damaged_rounds(store, model) == set()
    assert bits(lagging.replica.state) == bits(ahead.replica.state) == bits(sequential_fold(model, whole))


@pytest.mark.parametrize("moment", [NAN, b"\xff" * 8, *(struct.pack("<d", each) for each in (-1.0, 1.8e9 + 123))])
@pytest.mark.parametrize(("blocks", "newest"), [(None, True), (None, False), (1, True)])
async def test_a_damaged_feedback_time_stops_no_worker(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, moment: bytes, blocks: int | None, newest: bool
) -> None:
    """Workers that have folded the round and workers that have not go on, and load the snapshot at most once each."""
    model, loads, load = await make_model(store, name), list[object](), store.load_snapshot
    await play(store, model, 4, seed=1)
    await play(store, model, 3, seed=2, blocks=blocks)
    old = session_of(store, model)
    await predicted(old)
    whole = await whole_log(store, model.key)
    place = len(whole) - 1 if newest else 1
    whole[place] = changed(whole[place], ROUND.place("feedback_at"), moment)
    await rewrite(store, model, whole)

    async def counted(key: Any) -> Any:
        loads.append(key)
        return await load(key)

    monkeypatch.setattr(store, "load_snapshot", counted)
    new = session_of(store, model)
    for rounds in (7, 9):
        for session in (new, old, new, old):
            assert {answer.rounds_seen for answer in await predicted(session, 3)} == {rounds}
        assert len(loads) <= 2
        assert bits(old.replica.state) == bits(new.replica.state)
        if rounds == 7:
            await play(store, model, 2, seed=3)
    await old.replica.snapshot()
    assert old.replica.snapshot_rounds == 9


async def test_workers_that_find_damage_concurrently_agree(store: RedisStore, name: str) -> None:
    """Each damaged range is recorded once."""
    model, bad = await played(store, name, "dense", N, None), {2, 3, 7}
    whole = await whole_log(store, model.key)
    await damage_rounds(store, model, *bad)
    sessions = [session_of(store, model) for _ in range(5)]
    await asyncio.gather(*(predicted(session) for session in sessions))
    assert await damaged_rounds(store, model) == bad
    assert {b"".join(bits(session.replica.state)) for session in sessions} == {b"".join(sound_fold(model, whole, bad))}


# --- logs whose last round differs from its counter


async def copy_last(store: RedisStore, model: Model) -> None:
    """Append the last entry again, under the id of a change."""
    ((_, fields),) = await store.command("XRANGE", keys.log(*model.key), f"{N}-0", "+")
    pairs = [part for pair in dict(fields).items() for part in pair]
    await store.command("XADD", keys.log(*model.key), f"{N}-1", *pairs)


COUNTERS: dict[str, Fault] = {
    "counter too low": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", N - 2),
    "counter of zero": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", 0),
    "counter too high": lambda store, model: store.command("HINCRBY", keys.model(model.name), "rounds", 3),
    "counter with a zero before": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", f"0{N}"),
    "no log": lambda store, model: store.command("DEL", keys.log(*model.key)),
    "no last entry": lambda store, model: store.command("XDEL", keys.log(*model.key), f"{N}-0"),
    "the last entry twice": copy_last,
}


@pytest.mark.parametrize("what", COUNTERS)
async def test_a_log_that_differs_from_its_counter_accepts_no_feedback_and_is_reported(
    store: RedisStore, name: str, what: str
) -> None:
    """Reading such a log ends, and returns every readable round once."""
    model = await played(store, name, "dense", N, None)
    (answer,) = await predicted(session_of(store, model), 1)
    await COUNTERS[what](store, model)
    before = await store.command("XLEN", keys.log(*model.key))
    feedback = Feedback(PredictionId.parse(answer.prediction_id), True, None)
    with pytest.raises(StoreCorruptError):
        await store.add_feedback(model.key, [feedback], feedback_rules(model), START)
    assert await store.command("XLEN", keys.log(*model.key)) == before
    async with asyncio.timeout(20.0):
        assert any(finding.damaged for finding in [each async for each in search(store, name)])
        parts = [part async for part in await LogReader(model, store, COMPUTE).read(0, 1000)]
    numbers = [line.round for part in parts for line in part]
    assert numbers == sorted(set(numbers))
    if what in ("counter too low", "counter of zero"):  # no worker answers from an older state
        with pytest.raises(StoreCorruptError):
            await predicted(session_of(store, model))
        assert (await store.read_damage(model.key)).found == []


@pytest.mark.parametrize("field", ["rounds", "changes", "correct", "predictions"])
async def test_a_damaged_counter_stops_a_model_only_if_its_rounds_depend_on_it(
    client: httpx2.AsyncClient, store: RedisStore, name: str, field: str
) -> None:
    context = [0.6, 0.8, 0.0]
    await client.post("/models", json=definition(name))
    made = (await client.post("/predict", json={"model": name, "context": context})).json()
    for value in (b"oops", b"", b"-1", b"1e5", b"9" * 16):
        await store.command("HSET", keys.model(name), field, value)
        prediction = await client.post("/predict", json={"model": name, "context": context})
        feedback = await client.post("/feedback", json={"prediction_id": made["prediction_id"], "correct": True})
        for answer in (prediction, feedback):
            if field in ("rounds", "changes"):
                assert (answer.status_code, answer.json()["type"]) == (500, "urn:wager:problem:store-corrupt")
            else:
                assert answer.status_code == 200


async def test_a_body_with_too_many_parts_is_refused(client: httpx2.AsyncClient) -> None:
    """The body is refused before parsing, as each object, list and member takes time to create and free."""
    for part in (b"[],", b"{},", b'{"a":1},'):
        content = b'{"model":"m","context":[' + part * 300_000 + b"1]}"
        answer = await client.post("/predict", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert "250,000" in answer.json()["detail"]

"""The laws of damage to a log: every worker skips what cannot be read, and the model stays available."""

import asyncio
import struct
from typing import Any

import numpy as np
import pytest

from service.errors import StoreCorruptError
from service.models.model import Limits, Model, new_model
from service.schemas.models import ModelDefinition
from service.store import keys
from service.store.log_entries import read_entries
from service.store.records.layout import ROUND
from service.store.redis.redis_store import RedisStore
from service.store.values import LogEntry, Snapshot
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
    bits,
    definition,
    make_model,
    one_by_one,
    play,
    sequential_fold,
    whole_log,
)

N = 9
MOMENT, NUMBER = ROUND.place("feedback_at"), ROUND.place("round")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blocks", [None, 3])
@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
async def test_every_worker_skips_a_damaged_round(
    store: RedisStore, name: str, kind: str, blocks: int | None, place: int
) -> None:
    """With any field of a round destroyed, every worker answers with the state of all other rounds."""
    model = await played(store, name, kind, N, blocks)
    whole = await whole_log(store, model.key)
    for region, (begin, end) in regions(model, whole[place]).items():
        await store.command("DEL", keys.damage(*model.key))
        await store.command("HDEL", keys.model(name), "damage", "damaged")
        noise = b"\xff" * (end - begin - 1) + b"\x7f"  # NaN, or a large number
        damaged = changed(whole[place], begin, noise)
        await rewrite(store, model, [damaged if entry == whole[place] else entry for entry in whole])
        first, second = session_of(store, model), session_of(store, model)
        answers = await predicted(first) + await predicted(second)
        assert {answer.rounds_seen for answer in answers} == {N}, region
        bad = await damaged_rounds(store, model)
        start = whole[place].last_round - len(one_by_one([whole[place]])) + 1
        assert bad == {start}, region
        assert bits(first.replica.state) == bits(second.replica.state), region
        assert bits(first.replica.state) == sound_fold(model, whole, bad), region
        assert first.replica.statistics.counts() == second.replica.statistics.counts()
        assert first.replica.statistics.counts().rounds == N - len(bad)


@pytest.mark.parametrize("kind", KINDS)
async def test_any_byte_may_be_damaged(store: RedisStore, name: str, kind: str) -> None:
    """With any byte of the log changed, every worker answers with the same finite state."""
    model = await played(store, name, kind, N, 4)
    whole, rng = await whole_log(store, model.key), np.random.default_rng(7)
    for _ in range(30):
        await store.command("DEL", keys.damage(*model.key))
        await store.command("HDEL", keys.model(name), "damage", "damaged")
        place = int(rng.integers(len(whole)))
        at, new = int(rng.integers(len(whole[place].payload))), bytes([int(rng.integers(256))])
        entries = [changed(entry, at, new) if i == place else entry for i, entry in enumerate(whole)]
        await rewrite(store, model, entries)
        first, second = session_of(store, model), session_of(store, model)
        await predicted(first)
        await predicted(second)
        assert bits(first.replica.state) == bits(second.replica.state)
        assert all(np.isfinite(array).all() for array in first.replica.state)
        await first.replica.snapshot()
        third = session_of(store, model)
        await predicted(third)
        assert bits(third.replica.state) == bits(first.replica.state)
        await store.command("DEL", keys.snapshot(*model.key))


@pytest.mark.parametrize(
    "rounds", [b"", b"\0", b"\xff" * 100, b"\0" * 4000], ids=["empty", "one-byte", "noise", "zeros"]
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
async def test_an_entry_that_cannot_be_split_loses_all_its_rounds(
    store: RedisStore, name: str, kind: str, rounds: bytes, place: int
) -> None:
    """If an entry cannot be split into rounds, all of its rounds are skipped, and no others."""
    model = await played(store, name, kind, N, 3)
    whole = await whole_log(store, model.key)
    damaged = whole[place]._replace(payload=rounds)
    await rewrite(store, model, [damaged if entry == whole[place] else entry for entry in whole])
    session = session_of(store, model)
    await predicted(session)
    bad = await damaged_rounds(store, model)
    assert bad == set(range(whole[place].last_round - 2, whole[place].last_round + 1))
    assert bits(session.replica.state) == sound_fold(model, whole, bad)


@pytest.mark.parametrize("name_of_block", [b"\xff\xfe", b"", b"a b", b"a\n"])
async def test_a_damaged_block_name_is_damage(store: RedisStore, name: str, name_of_block: bytes) -> None:
    """An impossible block name costs its entry and stops no worker."""
    model = await played(store, name, "dense", N, 3)
    whole = await whole_log(store, model.key)
    entries: list[Any] = [whole[0], (whole[1].last_round, name_of_block, *whole[1][2:]), whole[2]]
    await rewrite(store, model, entries)
    session = session_of(store, model)
    await predicted(session)
    assert await damaged_rounds(store, model) == {4, 5, 6}
    assert bits(session.replica.state) == sound_fold(model, whole, {4, 5, 6})


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
    await rewrite(
        store, model, [changed(entry, 60, b"\xff" * 30) if entry.last_round == 8 else entry for entry in whole]
    )
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
    last = session_of(store, model)
    for session in (new, last):
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
    await rewrite(
        store, model, [changed(entry, 60, b"\xff" * 30) if entry.last_round == 4 else entry for entry in whole]
    )
    await predicted(lagging)
    assert await damaged_rounds(store, model) == set()
    assert bits(lagging.replica.state) == bits(ahead.replica.state) == bits(sequential_fold(model, whole))


class Counting(RedisStore):
    """A store that counts how often replicas load a snapshot."""

    loads = 0

    async def load_snapshot(self, key: Any) -> Snapshot | None:
        """See `Store.load_snapshot`."""
        self.loads += 1
        return await super().load_snapshot(key)


@pytest.mark.parametrize(
    "moment", [NAN, b"\xff" * 8, struct.pack("<d", -1.0), struct.pack("<d", 1e300), struct.pack("<d", 1_800_000_123.0)]
)
@pytest.mark.parametrize("blocks", [None, 1])
@pytest.mark.parametrize("newest", [True, False])
async def test_a_damaged_feedback_time_stops_no_worker(
    store_url: str, name: str, moment: bytes, blocks: int | None, newest: bool
) -> None:
    """Workers that have folded the round and workers that have not go on, and load the snapshot at most once each."""
    store = Counting(store_url, timeout=5.0)
    model = await make_model(store, name)
    await play(store, model, 4, seed=1)
    await play(store, model, 3, seed=2, blocks=blocks)
    old = session_of(store, model)
    await predicted(old)
    whole = await whole_log(store, model.key)
    place = len(whole) - 1 if newest else 1
    whole[place] = changed(whole[place], MOMENT, moment)
    await rewrite(store, model, whole)
    store.loads = 0
    new = session_of(store, model)
    for session in (new, old, new, old):
        assert {answer.rounds_seen for answer in await predicted(session, 3)} == {7}
    assert store.loads <= 2
    assert bits(old.replica.state) == bits(new.replica.state)
    await play(store, model, 2, seed=3)
    for session in (new, old):
        assert {answer.rounds_seen for answer in await predicted(session, 3)} == {9}
    assert store.loads <= 2
    assert bits(old.replica.state) == bits(new.replica.state)
    await old.replica.snapshot()
    assert old.replica.snapshot_rounds == 9
    await store.close()


async def test_workers_that_find_damage_concurrently_agree(store: RedisStore, name: str) -> None:
    """Each damaged range is recorded once."""
    model = await played(store, name, "dense", N, None)
    whole = await whole_log(store, model.key)
    bad = {2, 3, 7}
    await rewrite(store, model, [changed(e, 60, b"\xff" * 30) if e.last_round in bad else e for e in whole])
    sessions = [session_of(store, model) for _ in range(5)]
    await asyncio.gather(*(predicted(session) for session in sessions))
    assert await damaged_rounds(store, model) == bad
    assert {b"".join(bits(session.replica.state)) for session in sessions} == {b"".join(sound_fold(model, whole, bad))}


async def test_a_fully_damaged_log_is_followed(store: RedisStore, name: str) -> None:
    """If no round can be read, the model answers from its initial state and folds the next round."""
    model = await played(store, name, "dense", 4, 1)
    whole = await whole_log(store, model.key)
    await rewrite(store, model, [whole[0]._replace(payload=b"\xff" * len(whole[0].payload))])
    session = session_of(store, model)
    assert (await predicted(session))[0].rounds_seen == 4
    assert bits(session.replica.state) == bits(model.learner.init())
    await play(store, model, 1, seed=5)
    assert (await predicted(session))[0].rounds_seen == 5


def test_holes_are_not_skipped_as_damage() -> None:
    """A missing round is an error."""
    model = unstored_model()
    size = model.choice.records.round_bytes
    third = size.to_bytes(4, "little") + bytes(NUMBER - 4) + (3).to_bytes(8, "little") + bytes(size - NUMBER - 8)
    with pytest.raises(StoreCorruptError, match="gap"):
        read_entries(model.choice.records, [LogEntry(3, "x", third)], 1)


def unstored_model() -> Model:
    """Return a model that is in no store."""
    return new_model(ModelDefinition.model_validate(definition("nothing")), "first", Limits(2**30, 10**12))

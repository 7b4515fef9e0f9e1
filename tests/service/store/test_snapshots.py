"""The laws of snapshots: they round-trip, are complete or absent, or are recognized as damaged or newer."""

import asyncio
from typing import Any

import pytest

from service.errors import ModelNotFoundError, NewerVersionError, SnapshotNotFoundError, StoreCorruptError
from service.store import keys
from service.store.log_entries import mark_of
from service.store.records.layout import VERSION
from service.store.redis import redis_store, snapshot_parts
from service.store.redis.redis_store import RedisStore
from service.store.redis.snapshot_parts import SNAPSHOT_VERSION
from service.store.stored_models import ModelKey
from service.store.values import MOST_KEPT, Damage, DamagedSnapshotError, Keeping, KeptNote, Snapshot
from tests.servers import raw
from tests.service.store.samples import NEW, NOW, digest_of
from tests.service.store.scenario import Scenario

KEPT = Snapshot(7, b"0123456789", statistics=b"{}", change_count=2)


@pytest.fixture
def key(store: RedisStore, name: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> ModelKey:
    """Create a model whose snapshot has three parts."""
    monkeypatch.setattr(redis_store, "_PART_BYTES", 4)
    made = ModelKey(name, "first")
    assert runner.run(store.create_model(made, "{}", NOW))
    assert runner.run(store.save_snapshot(made, KEPT, 10)) == 7
    assert runner.run(store.load_snapshot(made)) == KEPT
    return made


@pytest.mark.parametrize("field", ["000000", "000001", "000002", "rounds", "changes", "tally", "check", "version"])
async def test_any_damaged_byte_of_a_snapshot_is_found(
    store: RedisStore, store_url: str, key: ModelKey, field: str
) -> None:
    with raw(store_url) as client:
        stored: Any = client.hget(keys.snapshot(*key), field)
        for at in range(len(stored) if field != "version" else 0):
            client.hset(keys.snapshot(*key), field, stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
            with pytest.raises(DamagedSnapshotError):
                await store.load_snapshot(key)
        client.hdel(keys.snapshot(*key), field)
    with pytest.raises(DamagedSnapshotError):
        await store.load_snapshot(key)


async def test_parts_in_another_order_are_damage(store: RedisStore, key: ModelKey) -> None:
    await store.command("HSET", keys.snapshot(*key), "000000", "4567", "000001", "0123")
    with pytest.raises(DamagedSnapshotError):
        await store.load_snapshot(key)


@pytest.mark.parametrize(("field", "value"), [("version", SNAPSHOT_VERSION + 1), ("later", 1)])
async def test_a_snapshot_of_a_newer_version_is_not_read(
    store: RedisStore, key: ModelKey, field: str, value: int
) -> None:
    await store.command("HSET", keys.snapshot(*key), field, value, "check", "of another kind")
    with pytest.raises(NewerVersionError):
        await store.load_snapshot(key)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (Snapshot(7, b"other", change_count=2), False),
        (Snapshot(7, b"other", change_count=1), False),
        (Snapshot(6, b"other", change_count=9), False),
        (Snapshot(7, b"other", change_count=3), True),
        (Snapshot(8, b"other"), True),
    ],
)
async def test_the_snapshot_with_more_rounds_or_changes_is_kept(
    store: RedisStore, key: ModelKey, written: Snapshot, kept: bool
) -> None:
    assert await store.save_snapshot(key, written, 10) == max(7, written.round_count)
    assert await store.load_snapshot(key) == (written if kept else KEPT)


@pytest.mark.parametrize("damaged", [False, True])
async def test_an_older_version_replaces_only_a_damaged_newer_snapshot(
    store: RedisStore, key: ModelKey, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    with monkeypatch.context() as later:
        later.setattr(redis_store, "SNAPSHOT_VERSION", SNAPSHOT_VERSION + 1)
        later.setattr(snapshot_parts, "SNAPSHOT_VERSION", SNAPSHOT_VERSION + 1)
        assert await store.save_snapshot(key, KEPT._replace(round_count=8), 10) == 8
        if damaged:
            await store.mark_snapshot(key, 8, "noise")
    mine = KEPT._replace(round_count=9)
    assert await store.save_snapshot(key, mine, 10) == (9 if damaged else 8)
    if damaged:
        assert await store.load_snapshot(key) == mine
    else:
        with pytest.raises(NewerVersionError):
            await store.load_snapshot(key)


async def test_a_model_is_listed_as_damaged_once_damage_is_recorded(
    store: RedisStore, store_url: str, key: ModelKey
) -> None:
    with raw(store_url) as client:
        await store.mark_snapshot(key, 3, "noise")  # that snapshot has been replaced
        assert not await store.record_damage(key, [Damage(7, 7, 7, "noise")])  # the snapshot includes the round
        assert client.zscore(keys.DAMAGED, key.name) is None
        assert await store.record_damage(key, [Damage(8, 8, 8, "noise")])
        assert client.zscore(keys.DAMAGED, key.name) == 0.0


async def test_a_log_with_changes_is_trimmed(store: RedisStore, store_url: str, key: ModelKey) -> None:
    ids = [*(f"{n}-0" for n in range(1, 501)), "500-1", "500-2"]
    with raw(store_url) as client:
        for id_ in ids:
            client.xadd(keys.log(*key), {"t": "r", "v": VERSION, "p": "x", "d": "y"}, id=id_)
        assert await store.save_snapshot(key, Snapshot(500, b"state", change_count=1), 2) == 500
        entries: Any = client.xrange(keys.log(*key))
    left = [id_.decode() for id_, _ in entries]
    assert len(left) < len(ids)
    assert left == ids[-len(left) :]
    assert left[-4:] == ["499-0", "500-0", "500-1", "500-2"]


async def test_a_snapshot_is_written_completely_or_not_at_all(
    store: RedisStore, key: ModelKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await store.command("TTL", keys.snapshot(*key)) == -1
    call = store._bulk.call

    async def forgetful(*command: Any) -> Any:  # the second part has expired
        return None if "000001" in command else await call(*command)

    monkeypatch.setattr(store._bulk, "call", forgetful)
    assert await store.save_snapshot(key, Snapshot(9, b"other state"), 10) == 7
    assert await store.load_snapshot(key) == KEPT


# --- kept snapshots, in every store


STATE = bytes(range(256)) * 10
NOTE = KeptNote("mine", 2, 0, 5.0, "key", "before the sale", len(STATE))
ROLLBACK = '{"state":{"snapshot":"mine"},"at":1}'


def snapshot(mark: bytes | None = None, **others: Any) -> Snapshot:
    return Snapshot(2, STATE, mark, b"tally")._replace(**others)


async def command(store: Any, *words: Any) -> Any:
    return await store.command(*words)


async def test_a_kept_snapshot_is_read_as_it_was_kept(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    await scenario.play(2)
    mark = mark_of((await store.read_tail(key, 1, 1)).entries[-1])
    assert await store.keep_snapshot(key, NOTE, snapshot(mark)) is Keeping.DONE
    assert await store.keep_snapshot(key, NOTE._replace(note="x"), snapshot(mark)._replace(state=b"x")) is Keeping.THERE
    await scenario.play(3)
    found = await store.load_kept(key, "mine")
    assert found is not None
    assert (found.round_count, found.change_count, bytes(found.state), found.statistics) == (2, 0, STATE, b"tally")
    assert list(await store.list_kept(key)) == [NOTE]
    assert await store.load_kept(key, "other") is None
    assert await store.load_snapshot(key) is None
    assert await store.delete_model(key.name)
    assert await command(store, "KEYS", f"*{{{key.name}}}*kept*") == []
    assert list(await store.list_kept(key)) == []


async def test_only_snapshots_of_this_log_are_kept(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    await scenario.play(2)
    assert await store.keep_snapshot(key, NOTE, snapshot(b"00000000")) is Keeping.STALE
    assert await store.keep_snapshot(key, NOTE, snapshot(damage=3)) is Keeping.STALE
    with pytest.raises(ModelNotFoundError):
        await store.keep_snapshot(ModelKey(key.name, "other"), NOTE, snapshot())
    assert await store.load_kept(key, "mine") is None
    assert list(await store.list_kept(key)) == []
    assert await command(store, "KEYS", f"*{key.name}*coming*") == []


async def test_a_model_keeps_a_limited_number(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    notes = [NOTE._replace(id=f"s{number:02d}") for number in range(MOST_KEPT)]
    for note in notes:
        assert await store.keep_snapshot(key, note, Snapshot(0, STATE)) is Keeping.DONE
    assert await store.keep_snapshot(key, NOTE, Snapshot(0, STATE)) is Keeping.FULL
    assert await store.drop_kept(key, "s00", NEW, 0) is Keeping.DONE
    assert await store.drop_kept(key, "s00", NEW, 0) is Keeping.ABSENT
    assert await store.keep_snapshot(key, NOTE, Snapshot(0, STATE)) is Keeping.DONE
    assert list(await store.list_kept(key)) == sorted([*notes[1:], NOTE], key=lambda note: note.id)


async def test_a_snapshot_that_the_log_needs_stays(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    with pytest.raises(SnapshotNotFoundError):
        await store.change_model(key, NEW, ROLLBACK, "{}")
    assert (await store.read_tail(key, 0, 1)).change_count == 0
    await scenario.play(2)
    assert await store.keep_snapshot(key, NOTE, snapshot()) is Keeping.DONE
    assert await store.change_model(key, NEW, ROLLBACK, "{}")
    digest = await digest_of(store, key.name)
    assert await store.drop_kept(key, "mine", NEW, 0) is Keeping.STALE
    assert await store.drop_kept(key, "mine", digest, 1) is Keeping.NEEDED
    await scenario.play(3)
    await command(store, "XTRIM", keys.log(*key), "MINID", "2-1")  # begins with the change
    assert await store.drop_kept(key, "mine", digest, 1) is Keeping.NEEDED
    await command(store, "XTRIM", keys.log(*key), "MINID", "3-0")
    assert await store.drop_kept(key, "mine", digest, 1) is Keeping.DONE
    assert await store.load_kept(key, "mine") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [("noise", StoreCorruptError), ("{}", StoreCorruptError), ('{"later":1}', NewerVersionError)],
)
async def test_an_unreadable_note_is_reported(scenario: Scenario, text: str, error: type[Exception]) -> None:
    await command(scenario.store, "HSET", keys.kept(*scenario.key), "mine", text)
    with pytest.raises(error):
        await scenario.store.list_kept(scenario.key)

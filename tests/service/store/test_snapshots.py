"""The laws of snapshots: they round-trip, or are recognized as damaged or newer."""

import asyncio
from typing import Any

import pytest

from service.errors import NewerVersionError
from service.store import keys
from service.store.records.layout import ROUND, VERSION
from service.store.redis import redis_store, snapshot_parts
from service.store.redis.redis_store import RedisStore
from service.store.redis.snapshot_parts import SNAPSHOT_VERSION
from service.store.stored_models import ModelKey
from service.store.values import DamagedSnapshotError, PublishedStatistics, Snapshot
from tests.servers import raw
from tests.service.store.samples import MOMENT, NOW

KEPT = Snapshot(7, b"0123456789", statistics=b"{}", change_count=2)


@pytest.fixture
def key(store: RedisStore, name: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> ModelKey:
    """Create a model whose snapshot has three parts."""
    monkeypatch.setattr(redis_store, "_PART_BYTES", 4)
    made = ModelKey(name, "first")
    assert runner.run(store.create_model(made, "{}", NOW))
    assert runner.run(store.save_snapshot(made, KEPT, 10)) == 7
    return made


async def test_a_snapshot_is_read_as_it_was_written(store: RedisStore, key: ModelKey) -> None:
    """Rounds, changes, statistics and state round-trip with any number of parts."""
    assert await store.load_snapshot(key) == KEPT


@pytest.mark.parametrize("field", ["000000", "000001", "000002", "rounds", "changes", "tally", "check"])
async def test_any_damaged_byte_of_a_snapshot_is_found(
    store: RedisStore, store_url: str, key: ModelKey, field: str
) -> None:
    """A snapshot with a changed byte or a missing field is damaged, and nothing of it is returned."""
    with raw(store_url) as client:
        stored: Any = client.hget(keys.snapshot(*key), field)
        for at in range(len(stored)):
            client.hset(keys.snapshot(*key), field, stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
            with pytest.raises(DamagedSnapshotError):
                await store.load_snapshot(key)
        client.hdel(keys.snapshot(*key), field)
    with pytest.raises(DamagedSnapshotError):
        await store.load_snapshot(key)


async def test_parts_of_another_snapshot_are_damage(store: RedisStore, key: ModelKey) -> None:
    """Intact parts in the wrong order are damage."""
    await store.command("HSET", keys.snapshot(*key), "000000", "4567", "000001", "0123")
    with pytest.raises(DamagedSnapshotError):
        await store.load_snapshot(key)


@pytest.mark.parametrize(("field", "value"), [("version", SNAPSHOT_VERSION + 1), ("later", 1)])
async def test_a_snapshot_of_a_newer_version_is_not_read(
    store: RedisStore, key: ModelKey, field: str, value: int
) -> None:
    """A newer version's snapshot is refused, whatever else it contains and whether or not its checksum is known."""
    await store.command("HSET", keys.snapshot(*key), field, value, "check", "of another kind")
    with pytest.raises(NewerVersionError):
        await store.load_snapshot(key)


@pytest.mark.parametrize("field", ["version", "rounds", "changes", "check"])
async def test_a_snapshot_without_one_of_its_fields_is_damaged(store: RedisStore, key: ModelKey, field: str) -> None:
    """Each number and the check are needed."""
    await store.command("HDEL", keys.snapshot(*key), field)
    with pytest.raises(DamagedSnapshotError):
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
    """Rounds are compared first, then changes."""
    assert await store.save_snapshot(key, written, 10) == max(7, written.round_count)
    assert await store.load_snapshot(key) == (written if kept else KEPT)


@pytest.mark.parametrize("damaged", [False, True])
async def test_an_older_version_replaces_only_a_damaged_newer_snapshot(
    store: RedisStore, key: ModelKey, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    """A newer version's snapshot stays, even if an older worker has seen more rounds, until it is marked damaged."""
    monkeypatch.setattr(redis_store, "SNAPSHOT_VERSION", SNAPSHOT_VERSION + 1)
    monkeypatch.setattr(snapshot_parts, "SNAPSHOT_VERSION", SNAPSHOT_VERSION + 1)
    newer = KEPT._replace(round_count=8)
    assert await store.save_snapshot(key, newer, 10) == 8
    if damaged:
        await store.mark_snapshot(key, 8, "noise")
    monkeypatch.undo()
    assert await store.save_snapshot(key, KEPT._replace(round_count=9), 10) == (9 if damaged else 8)
    if damaged:
        assert await store.load_snapshot(key) == KEPT._replace(round_count=9)
    else:
        with pytest.raises(NewerVersionError):
            await store.load_snapshot(key)


async def test_a_key_of_another_type_is_a_damaged_snapshot(store: RedisStore, key: ModelKey) -> None:
    """A key of another type is recorded as a damaged snapshot, and the next snapshot replaces it."""
    await store.command("DEL", keys.snapshot(*key))
    await store.command("SET", keys.snapshot(*key), "noise")
    with pytest.raises(DamagedSnapshotError, match="type") as caught:
        await store.load_snapshot(key)
    await store.mark_snapshot(key, caught.value.round_count, str(caught.value))
    (found,) = (await store.read_damage(key)).found
    assert (found.snapshot, found.last, found.reason) == (True, 0, str(caught.value))
    assert await store.save_snapshot(key, KEPT, 10) == 7
    assert await store.load_snapshot(key) == KEPT


async def test_a_log_with_changes_is_trimmed(store: RedisStore, store_url: str, key: ModelKey) -> None:
    """The last rounds before the snapshot stay, and so do changes that it has not seen."""
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


@pytest.mark.parametrize(
    ("changes", "moment", "kept"), [(1, MOMENT, 3), (0, MOMENT, 0), (2, MOMENT, 0), (1, b"8" * 8, 0)]
)
async def test_a_snapshot_is_matched_with_its_last_entry(
    store: RedisStore, store_url: str, name: str, changes: int, moment: bytes, kept: int
) -> None:
    """The log must have the entry of its rounds and changes, with the same time."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    with raw(store_url) as client:
        rounds = bytes(ROUND.place("feedback_at")) + MOMENT
        client.xadd(keys.log(*key), {"t": "r", "v": VERSION, "p": "x", "d": rounds}, id="3-1")
    assert await store.save_snapshot(key, Snapshot(3, b"state", moment, change_count=changes), 10) == kept


# --- statistics


async def test_older_statistics_never_replace_newer_ones(store: RedisStore, name: str) -> None:
    """A newer version's statistics replace an older version's, never the reverse, whatever their round counts."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    for rounds, version, kept in ((5, 2, 5), (6, 3, 6), (9, 2, 6), (6, 3, 6), (7, 4, 7), (8, 3, 7)):
        text = f"{rounds} of {version}".encode()
        assert await store.publish_statistics(key, PublishedStatistics(rounds, text, 1, 0, version)) == kept
    figures = await store.read_model_stats(name)
    assert figures is not None
    assert (figures.statistics_rounds, figures.statistics) == (7, b"7 of 4")

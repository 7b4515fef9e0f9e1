"""The laws of every store's kept snapshots."""

from typing import Any

import pytest

from service.errors import ModelNotFoundError, NewerVersionError, SnapshotNotFoundError, StoreCorruptError
from service.store import keys
from service.store.log_entries import mark_of
from service.store.stored_models import ModelKey
from service.store.values import MOST_KEPT, Keeping, KeptNote, Snapshot
from tests.service.store.samples import NEW, digest_of
from tests.service.store.scenario import Scenario

STATE = bytes(range(256)) * 10
NOTE = KeptNote("mine", 2, 0, 5.0, "key", "before the sale", len(STATE))


def snapshot(scenario_mark: bytes | None = None, **others: Any) -> Snapshot:
    """Return a snapshot of two rounds."""
    return Snapshot(2, STATE, scenario_mark, b"tally")._replace(**others)


async def command(store: Any, *words: Any) -> Any:
    """Send one command to a store."""
    return await store.command(*words)


async def test_a_kept_snapshot_is_read_as_it_was_kept(scenario: Scenario) -> None:
    """It keeps its state, statistics and note while the log goes on, and a second one with its id changes nothing."""
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


async def test_only_snapshots_of_this_log_are_kept(scenario: Scenario) -> None:
    """A snapshot of another log, or without recorded damage, is refused and leaves nothing."""
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
    """One more than the limit is refused; after one is dropped, there is room again."""
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
    """While the log has the change that names it, it is not dropped; nor if the caller has missed a change."""
    store, key = scenario.store, scenario.key
    await scenario.play(2)
    assert await store.keep_snapshot(key, NOTE, snapshot()) is Keeping.DONE
    assert await store.change_model(key, await digest_of(store, key.name), '{"state":{"snapshot":"mine"},"at":1}', "{}")
    assert await store.drop_kept(key, "mine", NEW, 0) is Keeping.STALE
    assert await store.drop_kept(key, "mine", await digest_of(store, key.name), 1) is Keeping.NEEDED
    await scenario.play(3)
    await command(store, "XTRIM", keys.log(*key), "MINID", "2-1")  # begins with the change
    assert await store.drop_kept(key, "mine", await digest_of(store, key.name), 1) is Keeping.NEEDED
    await command(store, "XTRIM", keys.log(*key), "MINID", "3-0")
    assert await store.drop_kept(key, "mine", await digest_of(store, key.name), 1) is Keeping.DONE
    assert await store.load_kept(key, "mine") is None


async def test_a_change_to_a_missing_snapshot_is_refused(scenario: Scenario) -> None:
    """It is not in the log, nor in the history."""
    store, key = scenario.store, scenario.key
    with pytest.raises(SnapshotNotFoundError):
        await store.change_model(key, await digest_of(store, key.name), '{"state":{"snapshot":"mine"},"at":1}', "{}")
    assert (await store.read_tail(key, 0, 1)).change_count == 0
    assert await store.change_model(key, await digest_of(store, key.name), '{"state":"initial","at":1}', "{}")


async def test_a_deleted_model_leaves_no_snapshots(scenario: Scenario) -> None:
    """No key of the model is left."""
    store, key = scenario.store, scenario.key
    for id_ in ("a", "b"):
        assert await store.keep_snapshot(key, NOTE._replace(id=id_), Snapshot(0, STATE)) is Keeping.DONE
    assert await store.delete_model(key.name)
    assert await command(store, "KEYS", f"*{{{key.name}}}*") == []
    assert list(await store.list_kept(key)) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("noise", StoreCorruptError),
        ("{}", StoreCorruptError),
        ('{"later":1}', NewerVersionError),
        ("[]", StoreCorruptError),
    ],
)
async def test_an_unreadable_note_is_reported(scenario: Scenario, text: str, error: type[Exception]) -> None:
    """Damage is corrupt, and a further field is of a newer version."""
    await command(scenario.store, "HSET", keys.kept(*scenario.key), "mine", text)
    with pytest.raises(error):
        await scenario.store.list_kept(scenario.key)

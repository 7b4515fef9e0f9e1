"""The laws of every store's logs and snapshots, and of what it says of itself."""

import pytest

from service.store.base import (
    Block,
    Feedback,
    LogEntry,
    Snapshot,
    Store,
    Tail,
)
from tests.service.store.places import Place
from tests.service.store.samples import (
    FORMAT,
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    as_round,
    id_of,
    sample_predictions,
    without_bodies,
)

# --- the log


async def test_a_round_carries_prediction_and_outcome(place: Place) -> None:
    """An entry of the log is the prediction's body, to the byte, behind the outcome that its feedback was told."""
    await place.predict("a", label=1)
    (result,) = await place.store.add_feedback(place.key, [Feedback(id_of("a"), None, as_bytes(3))], STRICT, NOW + 5)
    tail = await place.store.read_tail(place.key, 0, 10)
    record = sample_predictions("a", label=1)[0].record
    assert tail == Tail(1, [LogEntry(1, "a", as_round(record, 0, (False, NOW + 5, 1), as_bytes(3)))])
    (row,) = FORMAT.table([tail.entries[0].payload])
    assert result.outcome == (bool(row["correct"]), row["feedback_at"], row["round"], row["truth"].tobytes())


async def test_the_tail_begins_behind_a_round_and_ends_at_the_limit(place: Place) -> None:
    """Reading gives at most `limit` rounds behind `after`, oldest first, and how many there are in all."""
    await place.play(7)
    assert await place.numbers(0, 3) == [1, 2, 3]
    assert await place.numbers(3, 100) == [4, 5, 6, 7]
    assert await place.numbers(7, 100) == await place.numbers(99, 100) == []
    assert (await place.store.read_tail(place.key, 5, 1)).round_count == 7


async def test_answers_are_values(place: Place) -> None:
    """What was returned does not change with the store, nor the store with what was returned or passed."""
    given = sample_predictions("a")
    await place.store.add_predictions(place.key, given, WINDOW, None)
    given.clear()
    model, tail = await place.store.get_model(place.key.name), await place.store.read_tail(place.key, 0, 9)
    await place.judge(Feedback(id_of("a"), True, None))
    assert model is not None
    assert (model.round_count, tail) == (0, Tail(0, []))
    (await place.store.read_tail(place.key, 0, 9)).entries.clear()
    assert await place.numbers() == [1]


# --- snapshots


async def test_only_a_newer_snapshot_is_kept(place: Place) -> None:
    """A snapshot replaces one that has seen fewer rounds; each writer is told what is there."""
    await place.play(9)
    assert await place.store.load_snapshot(place.key) is None
    for rounds, state, kept in [(5, b"five", 5), (4, b"four", 5), (5, b"again", 5), (9, b"nine", 9)]:
        assert await place.store.save_snapshot(place.key, Snapshot(rounds, state), 100) == kept
    assert await place.store.load_snapshot(place.key) == Snapshot(9, b"nine")


@pytest.mark.parametrize("retain", [0, 1, 250, 1000, 5000])
async def test_trimming_keeps_what_is_to_be_retained(place: Place, retain: int) -> None:
    """Behind a snapshot the log keeps at least the retained rounds and all newer ones, and lets most others go."""
    await place.play(2000)
    await place.store.save_snapshot(place.key, Snapshot(1500, b"state"), retain)
    left = await place.numbers(limit=10_000)
    assert left == list(range(left[0], 2001))
    assert left[0] <= max(1, 1500 - retain + 1)
    assert left[0] > 1500 - retain - 200  # a node of the stream has 100 entries, and is dropped whole


async def test_round_numbers_go_on_behind_a_trimmed_log(place: Place) -> None:
    """Rounds are counted over the whole life of the model, though the log has lost all of them."""
    await place.play(1000)
    await place.store.save_snapshot(place.key, Snapshot(1000, b"state"), 0)
    await place.predict("next")
    (result,) = await place.store.add_feedback(place.key, [Feedback(id_of("next"), True, None)], STRICT, NOW)
    assert result.outcome is not None
    assert result.outcome.round == 1001
    assert (await place.numbers())[-1] == 1001


async def test_binary_survives(place: Place) -> None:
    """Zero bytes, newlines and bytes that are no text come back as they went."""
    state = bytes(range(256)) * 3
    await place.play(1)
    await place.store.save_snapshot(place.key, Snapshot(1, state), 10)
    assert await place.store.load_snapshot(place.key) == Snapshot(1, state)
    head = without_bodies(sample_predictions("p9")[0].record)
    block = Block("p9~=+/@-.", head + state)
    assert await place.store.add_predictions(place.key, [block], WINDOW, None) == [None]
    assert await place.store.add_predictions(place.key, [block], WINDOW, None) == [head]


# --- readiness


async def test_the_store_says_what_it_is_and_promises(any_store: Store) -> None:
    """Version and durability are told, and nothing is wrong with a store that has its append-only file on."""
    facts = await any_store.check()
    assert facts.version.split()[0] in {"Valkey", "Redis"}
    assert "survives a crash" in facts.persistence
    assert facts.warnings == []

"""The laws of every store's log and snapshots, and of its readiness report."""

import pytest

from service.store.capabilities import Store
from service.store.values import Block, Feedback, LogEntry, Snapshot, Tail
from tests.service.store.samples import (
    FORMAT,
    NEW,
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    as_round,
    id_of,
    sample_predictions,
    without_bodies,
)
from tests.service.store.scenario import Scenario

# --- the log


async def test_a_round_carries_prediction_and_outcome(scenario: Scenario) -> None:
    """A log entry is the outcome that the feedback returned, followed by the prediction's body, to the byte."""
    await scenario.predict("a", label=1)
    (result,) = await scenario.store.add_feedback(
        scenario.key, [Feedback(id_of("a"), None, as_bytes(3))], STRICT, NOW + 5
    )
    tail = await scenario.store.read_tail(scenario.key, 0, 10)
    record = sample_predictions("a", label=1)[0].record
    assert tail == Tail(1, [LogEntry(1, "a", as_round(record, 0, (False, NOW + 5, 1), as_bytes(3)))], digest=NEW)
    (row,) = FORMAT.table([tail.entries[0].payload])
    assert result.outcome == (row["reward"] == 1.0, row["feedback_at"], row["round"], row["truth"].tobytes())


async def test_the_tail_starts_after_a_round_and_ends_at_the_limit(scenario: Scenario) -> None:
    """A read returns at most `limit` rounds after `after`, oldest first, and the total round count."""
    await scenario.play(7)
    assert await scenario.numbers(0, 3) == [1, 2, 3]
    assert await scenario.numbers(3, 100) == [4, 5, 6, 7]
    assert await scenario.numbers(7, 100) == await scenario.numbers(99, 100) == []
    assert (await scenario.store.read_tail(scenario.key, 5, 1)).round_count == 7


async def test_replies_are_independent_values(scenario: Scenario) -> None:
    """Returned and passed values do not change with the store, nor the store with them."""
    given = sample_predictions("a")
    await scenario.store.add_predictions(scenario.key, given, WINDOW, None)
    given.clear()
    model, tail = await scenario.store.get_model(scenario.key.name), await scenario.store.read_tail(scenario.key, 0, 9)
    await scenario.judge(Feedback(id_of("a"), True, None))
    assert model is not None
    assert (model.round_count, tail) == (0, Tail(0, [], digest=NEW))
    (await scenario.store.read_tail(scenario.key, 0, 9)).entries.clear()
    assert await scenario.numbers() == [1]


# --- snapshots


async def test_only_a_newer_snapshot_is_kept(scenario: Scenario) -> None:
    """A snapshot replaces one that has seen fewer rounds; each save returns the stored round count."""
    await scenario.play(9)
    assert await scenario.store.load_snapshot(scenario.key) is None
    for rounds, state, kept in [(5, b"five", 5), (4, b"four", 5), (5, b"again", 5), (9, b"nine", 9)]:
        assert await scenario.store.save_snapshot(scenario.key, Snapshot(rounds, state), 100) == kept
    assert await scenario.store.load_snapshot(scenario.key) == Snapshot(9, b"nine")


@pytest.mark.parametrize("retain", [0, 1, 250, 1000, 5000])
async def test_trimming_keeps_the_retained_rounds(scenario: Scenario, retain: int) -> None:
    """The log keeps every round after the snapshot and at least the retained ones before it, and drops most others."""
    await scenario.play(2000)
    await scenario.store.save_snapshot(scenario.key, Snapshot(1500, b"state"), retain)
    left = await scenario.numbers(limit=10_000)
    assert left == list(range(left[0], 2001))
    assert left[0] <= max(1, 1500 - retain + 1)
    assert left[0] > 1500 - retain - 200  # a stream node has 100 entries and is dropped as a whole


async def test_round_numbers_continue_after_a_trim(scenario: Scenario) -> None:
    """Rounds are numbered over the model's whole life, even if the log has lost all of them."""
    await scenario.play(1000)
    await scenario.store.save_snapshot(scenario.key, Snapshot(1000, b"state"), 0)
    await scenario.predict("next")
    (result,) = await scenario.store.add_feedback(scenario.key, [Feedback(id_of("next"), True, None)], STRICT, NOW)
    assert result.outcome is not None
    assert result.outcome.round == 1001
    assert (await scenario.numbers())[-1] == 1001


async def test_binary_data_survives(scenario: Scenario) -> None:
    """Zero bytes, newlines and bytes that are not text round-trip."""
    state = bytes(range(256)) * 3
    await scenario.play(1)
    await scenario.store.save_snapshot(scenario.key, Snapshot(1, state), 10)
    assert await scenario.store.load_snapshot(scenario.key) == Snapshot(1, state)
    head = without_bodies(sample_predictions("p9")[0].record)
    block = Block("p9~=+/@-.", head + state)
    assert await scenario.store.add_predictions(scenario.key, [block], WINDOW, None) == [None]
    assert await scenario.store.add_predictions(scenario.key, [block], WINDOW, None) == [head]


# --- readiness


async def test_readiness_reports_version_and_durability(any_store: Store) -> None:
    """A store with its append-only file on has no warnings."""
    facts = await any_store.check()
    assert facts.version.split()[0] in {"Valkey", "Redis"}
    assert "survives a crash" in facts.persistence
    assert facts.warnings == []

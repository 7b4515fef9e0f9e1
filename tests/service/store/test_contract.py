"""The laws of models, predictions, logs and snapshots: each kind of store x each law."""

import math
import struct

import pytest

from service.errors import ModelNotFoundError
from service.store import keys
from service.store.capabilities import Store
from service.store.stored_models import ModelKey, StoredModel, Version, digest_at
from service.store.values import FeedbackStatus, PublishedStatistics, Seen, Snapshot
from tests.servers import keys_like, raw
from tests.service.store.samples import (
    FORMAT,
    MOMENT,
    NEW,
    NOW,
    WINDOW,
    as_bytes,
    as_round,
    block_offsets,
    sample_predictions,
    sample_seen,
    without_bodies,
)
from tests.service.store.scenario import Scenario

OTHER_MOMENT = struct.pack("<d", NOW + 1)


# --- models


async def test_a_name_is_given_once(scenario: Scenario) -> None:
    created = StoredModel(scenario.key, "{}", NOW, 0, 0, 0, digests=NEW)
    assert await scenario.model() == created
    assert not await scenario.store.create_model(ModelKey(scenario.key.name, "other"), "{}", NOW + 1)
    assert await scenario.store.create_model(scenario.key, "{}", NOW)
    assert await scenario.model() == created


async def test_those_models_that_exist_are_listed_in_order(any_store: Store, name: str) -> None:
    names = [f"{name}-page-{letter}" for letter in "edcba"]
    for each in names:
        assert await any_store.create_model(ModelKey(each, "first"), "{}", NOW)
    found = await any_store.list_models([*names[:3], f"{name}-never-created", *names[3:]])
    assert [model.name for model in found] == names
    assert [each for each in await any_store.list_names(-1) if each in names] == sorted(names)
    assert await any_store.list_models([]) == []


async def test_a_deletion_leaves_nothing_but_predictions(scenario: Scenario, any_store_url: str) -> None:
    name = scenario.key.name
    await scenario.play(2)
    await scenario.store.save_snapshot(scenario.key, Snapshot(2, b"state"), 10)
    await scenario.store.publish_statistics(scenario.key, PublishedStatistics(1, b"tally", 1, 0, 2))
    assert await scenario.store.delete_model(name)
    assert keys_like(any_store_url, name) == [keys.block(*scenario.key, own) for own in ("p0", "p1")]
    assert await scenario.store.get_model(name) is None
    assert await scenario.store.read_model_stats(name) is None
    assert (name in await scenario.store.list_names(-1), await scenario.store.list_models([name])) == (False, [])
    assert not await scenario.store.delete_model(name)


async def test_a_version_is_deleted_only_while_it_is_current(scenario: Scenario) -> None:
    """The store compares: whatever happens between a caller's look and the deletion, no other version is deleted."""
    name = scenario.key.name
    await scenario.play(2)
    stored = await scenario.store.get_model(name)
    assert stored is not None
    own, digest = stored.key.incarnation.encode(), digest_at(stored.digests, 0)
    for other in (Version(own, b"another!"), Version(b"another", digest)):
        assert not await scenario.store.delete_model(name, other)
        assert name in await scenario.store.list_names(-1)
        assert await scenario.store.get_model(name) == stored
    assert await scenario.store.delete_model(name, Version(own, digest))
    assert await scenario.store.get_model(name) is None
    assert not await scenario.store.delete_model(name, Version(own, digest))


@pytest.mark.parametrize("kind", ["text", "without an incarnation"])
async def test_a_damaged_model_can_be_deleted(scenario: Scenario, any_store_url: str, kind: str) -> None:
    name = scenario.key.name
    with raw(any_store_url) as client:
        if kind == "text":
            client.set(keys.model(name), b"damaged")
        else:
            client.hdel(keys.model(name), "incarnation")
        assert await scenario.store.delete_model(name)
        assert not client.exists(keys.model(name))
    assert not await scenario.store.delete_model(name)


async def test_a_recreated_model_starts_empty(scenario: Scenario) -> None:
    await scenario.play(3)
    await scenario.predict("open")
    await scenario.store.save_snapshot(scenario.key, Snapshot(3, b"state"), 10)
    second = await scenario.replaced()
    assert await second.counters() == (0, 0, 0)
    assert await second.numbers() == []
    assert await scenario.store.load_snapshot(second.key) is None
    assert await second.confirm("open") == [FeedbackStatus.UNKNOWN]
    assert await second.predict("open") == [None]


async def test_a_late_deletion_spares_the_recreated_model(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    former, name = scenario.key.incarnation.encode(), scenario.key.name
    second, seen, own = await scenario.replaced(), iter([former]), scenario.store._incarnation  # type: ignore[attr-defined]

    async def late(name: str) -> bytes | None:
        return next(seen, None) or await own(name)

    monkeypatch.setattr(scenario.store, "_incarnation", late)
    assert not await scenario.store.delete_model(name)
    assert (await scenario.model()).key == second.key
    assert name in await scenario.store.list_names(-1)


@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
async def test_every_call_for_a_deleted_model_is_refused(scenario: Scenario, recreated: bool) -> None:
    store, key = scenario.store, scenario.key
    await scenario.predict("open")
    await store.delete_model(key.name)
    if recreated:
        await store.create_model(ModelKey(key.name, "second"), "{}", NOW)
    before = await store.get_model(key.name)
    for call in (
        scenario.predict("other"),
        scenario.confirm("open"),
        scenario.numbers(),
        store.save_snapshot(key, Snapshot(1, b"state"), 10),
        store.publish_statistics(key, PublishedStatistics(2, b"tally", 1, 0, 2)),
    ):
        with pytest.raises(ModelNotFoundError) as refusal:
            await call
        assert refusal.value.field == "model"
    assert await store.get_model(key.name) == before
    assert await store.load_snapshot(key) is None


# --- predictions


async def test_a_prediction_is_stored_unless_its_id_is_in_use(scenario: Scenario) -> None:
    assert await scenario.predict("a", "b", label=1) == [None, None]
    (stored,) = sample_predictions("a", label=1)
    other = without_bodies(sample_predictions("a", "c", label=3)[1].record)
    assert await scenario.predict("a", "c", "c", label=3) == [without_bodies(stored.record), None, other]
    assert await scenario.counters() == (0, 3, 0)
    assert await scenario.store.read_block(scenario.key, "a") == stored.record
    assert await scenario.store.read_block(scenario.key, "d") is None


async def test_predictions_that_have_seen_every_round_are_stored(scenario: Scenario) -> None:
    await scenario.play(3)
    given = sample_predictions("a")
    for seen in (sample_seen(3, 10), sample_seen(3, 10, MOMENT)):
        assert isinstance(await scenario.store.add_predictions(scenario.key, given, WINDOW, seen), list)
    assert await scenario.counters() == (3, 4, 3)


@pytest.mark.parametrize("seen", [sample_seen(4, 10), sample_seen(4, 10, MOMENT), sample_seen(3, 10, OTHER_MOMENT)])
async def test_predictions_from_another_log_get_the_tail(scenario: Scenario, seen: Seen) -> None:
    await scenario.play(3)
    tail = await scenario.store.add_predictions(scenario.key, sample_predictions("a"), WINDOW, seen)
    assert tail == await scenario.store.read_tail(scenario.key, seen.round_count - 1, 10)
    assert await scenario.counters() == (3, 3, 3)


@pytest.mark.parametrize("moment", [MOMENT, None, OTHER_MOMENT])
@pytest.mark.parametrize("rounds", [0, 2, 3, 4])
async def test_newer_rounds_are_allowed_only_after_the_same_log(
    scenario: Scenario, rounds: int, moment: bytes | None
) -> None:
    await scenario.play(3)
    seen = sample_seen(rounds, 10, moment if rounds else None, allow_newer=True)
    reply = await scenario.store.add_predictions(scenario.key, sample_predictions("a"), WINDOW, seen)
    stored = rounds == 0 or (rounds < 4 and moment != OTHER_MOMENT)
    assert (reply == [None]) is stored
    assert await scenario.counters() == (3, 3 + stored, 3)


async def test_predictions_that_miss_rounds_get_the_tail(scenario: Scenario) -> None:
    await scenario.play(5)
    for seen, returned in ((2, [2, 3, 4]), (4, [4, 5])):
        tail = await scenario.store.add_predictions(scenario.key, sample_predictions("a"), WINDOW, sample_seen(seen, 2))
        assert tail == await scenario.store.read_tail(scenario.key, seen - 1, 3)
        assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (5, returned)
    assert await scenario.counters() == (5, 5, 5)
    assert await scenario.predict("a") == [None]


async def test_reusing_a_closed_predictions_id_returns_its_head_with_the_outcome(scenario: Scenario) -> None:
    await scenario.play(1)
    (head,) = await scenario.predict("p0")
    whole = sample_predictions("p0", label=2)[0].record
    record, offsets = without_bodies(whole), block_offsets(whole)
    outcome = as_round(whole, 0, (True, NOW, 1), as_bytes(2))[4 : 4 + len(record) - offsets.outcomes]
    assert head == record[: offsets.open] + bytes(4) + outcome
    assert FORMAT.decode_stored(head) == FORMAT.decode_stored(record)


# --- logs and snapshots


async def test_the_tail_starts_after_a_round_and_ends_at_the_limit(scenario: Scenario) -> None:
    await scenario.play(7)
    assert await scenario.numbers(0, 3) == [1, 2, 3]
    assert await scenario.numbers(3, 100) == [4, 5, 6, 7]
    assert await scenario.numbers(7, 100) == await scenario.numbers(99, 100) == []
    assert (await scenario.store.read_tail(scenario.key, 5, 1)).round_count == 7


async def test_only_a_newer_snapshot_is_kept(scenario: Scenario) -> None:
    await scenario.play(9)
    assert await scenario.store.load_snapshot(scenario.key) is None
    state = bytes(range(256)) * 3
    for rounds, given, kept in [(5, b"five", 5), (4, b"four", 5), (5, b"again", 5), (9, state, 9)]:
        assert await scenario.store.save_snapshot(scenario.key, Snapshot(rounds, given), 100) == kept
    assert await scenario.store.load_snapshot(scenario.key) == Snapshot(9, state)


@pytest.mark.parametrize(("rounds", "last_at", "kept"), [(3, MOMENT, 3), (3, OTHER_MOMENT, 1), (4, MOMENT, 1)])
async def test_a_snapshot_of_another_log_is_not_kept(
    scenario: Scenario, rounds: int, last_at: bytes, kept: int
) -> None:
    await scenario.play(3)
    assert await scenario.store.save_snapshot(scenario.key, Snapshot(1, b"first", MOMENT), 10) == 1
    assert await scenario.store.save_snapshot(scenario.key, Snapshot(rounds, b"second", last_at), 10) == kept


@pytest.mark.parametrize("retain", [0, 1, 250, 5000])
async def test_trimming_keeps_the_retained_rounds(scenario: Scenario, retain: int) -> None:
    await scenario.play(700)
    await scenario.store.save_snapshot(scenario.key, Snapshot(600, b"state"), retain)
    left = await scenario.numbers(limit=10_000)
    assert left == list(range(left[0], 701))
    assert left[0] <= max(1, 600 - retain + 1)
    assert left[0] > 600 - retain - 200  # a stream node has 100 entries and is dropped as a whole
    await scenario.predict("next")
    await scenario.confirm("next")
    assert (await scenario.numbers())[-1] == 701


# --- statistics and readiness


async def test_every_refused_feedback_is_counted_by_its_status(scenario: Scenario) -> None:
    await scenario.predict("a", "b")
    for again in (False, True):
        statuses = await scenario.confirm(*(["a"] if not again else []), "a", "x")
        assert statuses[-2:] == [FeedbackStatus.DUPLICATE, FeedbackStatus.UNKNOWN]
    figures = await scenario.figures()
    assert (figures.round_count, figures.predictions, figures.correct) == (1, 2, 1)
    assert figures.refused == {FeedbackStatus.DUPLICATE: 2, FeedbackStatus.UNKNOWN: 2}


async def test_the_statistics_of_the_newest_version_with_most_rounds_are_kept(scenario: Scenario) -> None:
    first, later = ((5, 2, 5), (3, 2, 5), (5, 2, 5), (6, 3, 6)), ((9, 2, 6), (6, 3, 6), (7, 4, 7), (8, 3, 7))
    for rounds, version, kept in first + later:
        text = f"{rounds} of {version}".encode()
        given = PublishedStatistics(rounds, text, 1, 0, version)
        assert await scenario.store.publish_statistics(scenario.key, given) == kept
    figures = await scenario.figures()
    assert (figures.statistics_rounds, figures.statistics) == (7, b"7 of 4")


async def test_only_the_slots_of_the_window_and_one_before_are_kept(scenario: Scenario) -> None:
    for slot in range(100, 120):
        await scenario.predict(f"p{slot}")
        for _ in range(2):
            await scenario.store.publish_statistics(scenario.key, PublishedStatistics(0, b"", slot, slot - 4, 2))
    figures = await scenario.figures()
    assert figures.predictions_by == {slot: slot - 99 for slot in range(114, 120)}
    assert (figures.snapshot_rounds, figures.snapshot_at) == (0, None)
    await scenario.store.save_snapshot(scenario.key, Snapshot(4, b"state", statistics=b"tally"), 10)
    figures = await scenario.figures()
    assert (figures.snapshot_rounds, (figures.snapshot_at or 0.0) > 1.7e9) == (4, True)
    assert await scenario.store.load_snapshot(scenario.key) == Snapshot(4, b"state", statistics=b"tally")


async def test_the_load_has_the_models_and_the_memory_of_the_store(scenario: Scenario, any_store_url: str) -> None:
    load = await scenario.store.read_load()
    assert 0 < load.memory < load.memory_limit
    names = await scenario.store.list_names(10_000)
    assert (scenario.key.name in names, len(names)) == (True, load.models)
    assert len(await scenario.store.list_names(1)) == 1
    with raw(any_store_url) as client:
        client.config_set("maxmemory", "1gb")
        try:
            assert (await scenario.store.read_load()).memory_limit == 2**30
        finally:
            client.config_set("maxmemory", "0")


async def test_the_busiest_models_come_first_and_a_day_halves_traffic(any_store: Store, any_store_url: str) -> None:
    with raw(any_store_url) as client:
        client.delete(keys.TRAFFIC)
        names = [f"busy-{n}" for n in range(4)]
        for name in reversed(names):
            assert await any_store.create_model(ModelKey(name, "first"), "{}", NOW)
        await any_store.count_traffic({names[2]: 3, "never-created": 9})
        for n in (1, 2, 1):  # four in three parts
            await any_store.count_traffic({names[3]: n})
        assert "never-created" not in await any_store.list_busiest(1)  # deleted while another worker counted it
        assert await any_store.list_busiest(2) == [names[3], names[2]]
        assert client.zscore(keys.TRAFFIC, "never-created") is None
        assert await any_store.list_busiest(0) == []
        (seconds, _), score = client.time(), client.zscore(keys.TRAFFIC, names[2])
        assert score == pytest.approx(math.log(3) + seconds * math.log(2) / 86_400, abs=0.01)
        traffic = await any_store.read_traffic()
        assert (traffic[names[2]], traffic[names[3]] - traffic[names[2]]) == pytest.approx(
            (score, math.log(4 / 3)), abs=0.01
        )
        everything = await any_store.list_busiest(10_000)
        assert everything[:2] == [names[3], names[2]]
        assert sorted(everything) == await any_store.list_names(10_000)
        client.zincrby(keys.TRAFFIC, -math.log(2.0), names[3])  # as if its predictions were a day older
        assert await any_store.list_busiest(2) == [names[2], names[3]]  # 3 against 4 / 2
        await any_store.count_traffic({names[3]: 2})
        assert await any_store.list_busiest(2) == [names[3], names[2]]  # 3 against 2 + 4 / 2
        for name in names:
            await any_store.delete_model(name)
        assert client.exists(keys.TRAFFIC) == 0


async def test_readiness_reports_version_and_durability(any_store: Store) -> None:
    facts = await any_store.check()
    assert facts.version.split()[0] in {"Valkey", "Redis"}
    assert "survives a crash" in facts.persistence
    assert facts.warnings == []

"""The laws of every store: each kind of store x each law."""

import struct

import pytest

from service.errors import ModelNotFoundError
from service.store import keys
from service.store.capabilities import Store
from service.store.stored_models import ModelKey, StoredModel
from service.store.values import Feedback, FeedbackStatus, Seen, Snapshot
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
    id_of,
    sample_predictions,
    sample_seen,
    without_bodies,
)
from tests.service.store.scenario import Scenario

OTHER_MOMENT = struct.pack("<d", NOW + 1)
RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT


# --- models


async def test_a_model_is_read_as_it_was_created(scenario: Scenario) -> None:
    """Definition, creation time and incarnation round-trip, and the counters are zero."""
    assert await scenario.store.get_model(scenario.key.name) == StoredModel(
        scenario.key, "{}", NOW, 0, 0, 0, digests=NEW
    )


async def test_an_unknown_name_has_no_model(any_store: Store, name: str) -> None:
    """Reading an unknown name returns nothing, and deleting it returns False."""
    assert await any_store.get_model(name) is None
    assert not await any_store.delete_model(name)


async def test_a_name_is_given_once(scenario: Scenario) -> None:
    """Creating another model under a taken name changes nothing; repeating the same creation succeeds."""
    assert not await scenario.store.create_model(ModelKey(scenario.key.name, "other"), "{}", NOW + 1)
    assert await scenario.store.create_model(scenario.key, "{}", NOW)
    assert await scenario.store.get_model(scenario.key.name) == StoredModel(
        scenario.key, "{}", NOW, 0, 0, 0, digests=NEW
    )


async def test_models_are_listed_by_name_a_page_at_a_time(any_store: Store, name: str) -> None:
    """Pages follow the order of names, without gaps or repetitions."""
    names = [f"{name}-page-{letter}" for letter in "edcba"]
    for each in names:
        assert await any_store.create_model(ModelKey(each, "first"), "{}", NOW)
    found: list[str] = []
    cursor: str | None = f"{name}-page-"
    while cursor is not None and len(found) < 5:
        page = await any_store.list_models(cursor, 2)
        assert len(page.models) <= 2
        found += [model.name for model in page.models]
        cursor = page.next_cursor
    assert found[:5] == sorted(names)


async def test_the_last_page_has_no_cursor(any_store: Store) -> None:
    """After the last name, the page is empty and has no cursor."""
    assert await any_store.list_models("~", 10) == ([], None)


async def test_a_deleted_model_is_gone(scenario: Scenario) -> None:
    """A deleted model is neither read nor listed, and a second deletion returns False."""
    assert await scenario.store.delete_model(scenario.key.name)
    assert await scenario.store.get_model(scenario.key.name) is None
    page = await scenario.store.list_models(scenario.key.name[:-1], 1000)
    assert scenario.key.name not in [model.name for model in page.models]
    assert not await scenario.store.delete_model(scenario.key.name)


async def test_a_deletion_leaves_nothing_but_predictions(scenario: Scenario, any_store_url: str) -> None:
    """Model, log and snapshot are deleted immediately; predictions expire later."""
    await scenario.play(2)
    await scenario.store.save_snapshot(scenario.key, Snapshot(2, b"state"), 10)
    await scenario.store.delete_model(scenario.key.name)
    assert keys_like(any_store_url, scenario.key.name) == [keys.block(*scenario.key, own) for own in ("p0", "p1")]


async def test_a_recreated_model_starts_empty(scenario: Scenario) -> None:
    """Log, counters, snapshot and predictions of the deleted model do not reach its successor."""
    await scenario.play(3)
    await scenario.predict("open")
    await scenario.store.save_snapshot(scenario.key, Snapshot(3, b"state"), 10)
    assert await scenario.store.delete_model(scenario.key.name)
    second = Scenario(scenario.store, ModelKey(scenario.key.name, "second"))
    assert await scenario.store.create_model(second.key, "{}", NOW)
    assert await second.counters() == (0, 0, 0)
    assert await second.numbers() == []
    assert await scenario.store.load_snapshot(second.key) is None
    assert await second.judge(Feedback(id_of("open"), True, None)) == [FeedbackStatus.UNKNOWN]
    assert await second.predict("open") == [None]


async def test_a_late_deletion_spares_the_recreated_model(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that began before the model was deleted and created again changes nothing."""
    former, name, look = scenario.key.incarnation.encode(), scenario.key.name, scenario.store.get_model
    await scenario.store.delete_model(name)
    second, seen, own = ModelKey(name, "second"), iter([former]), scenario.store._incarnation  # type: ignore[attr-defined]
    await scenario.store.create_model(second, "{}", NOW)

    async def late(name: str) -> bytes | None:
        return next(seen, None) or await own(name)

    monkeypatch.setattr(scenario.store, "_incarnation", late)
    assert not await scenario.store.delete_model(name)
    found = await look(name)
    assert found is not None
    assert found.key == second
    assert name in [model.name for model in (await scenario.store.list_models(name[:-1], 1000)).models]


@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
async def test_every_call_for_a_deleted_model_is_refused(scenario: Scenario, recreated: bool) -> None:
    """Predictions, feedback, log reads and snapshots of a deleted incarnation are refused and change nothing."""
    await scenario.predict("open")
    await scenario.store.delete_model(scenario.key.name)
    if recreated:
        await scenario.store.create_model(ModelKey(scenario.key.name, "second"), "{}", NOW)
    before = await scenario.store.get_model(scenario.key.name)
    for call in (
        scenario.predict("other"),
        scenario.judge(Feedback(id_of("open"), True, None)),
        scenario.numbers(),
        scenario.store.save_snapshot(scenario.key, Snapshot(1, b"state"), 10),
    ):
        with pytest.raises(ModelNotFoundError) as refusal:
            await call
        assert refusal.value.field == "model"
    assert await scenario.store.get_model(scenario.key.name) == before
    assert await scenario.store.load_snapshot(scenario.key) is None


# --- predictions


async def test_a_prediction_is_stored_unless_its_id_is_in_use(scenario: Scenario) -> None:
    """The first record of an id stays; later ones, even in the same call, get its head back."""
    assert await scenario.predict("a", "b", label=1) == [None, None]
    first = without_bodies(sample_predictions("a", label=1)[0].record)
    other = without_bodies(sample_predictions("a", "c", label=3)[1].record)
    assert await scenario.predict("a", "c", "c", label=3) == [first, None, other]
    assert await scenario.predict("a", label=3) == [first]
    assert await scenario.counters() == (0, 3, 0)


async def test_a_block_is_read_by_its_id(scenario: Scenario) -> None:
    """A block has the record that was stored; an id without predictions has none."""
    await scenario.predict("a", label=1)
    (stored,) = sample_predictions("a", label=1)
    assert await scenario.store.read_block(scenario.key, "a") == stored.record
    assert await scenario.store.read_block(scenario.key, "b") is None


async def test_predictions_that_have_seen_every_round_are_stored(scenario: Scenario) -> None:
    """Predictions with the log's round count are stored."""
    await scenario.play(3)
    given = sample_predictions("a")
    for seen in (sample_seen(3, 10), sample_seen(3, 10, MOMENT)):
        assert isinstance(await scenario.store.add_predictions(scenario.key, given, WINDOW, seen), list)
    assert await scenario.counters() == (3, 4, 3)


@pytest.mark.parametrize("seen", [sample_seen(4, 10), sample_seen(4, 10, MOMENT), sample_seen(3, 10, OTHER_MOMENT)])
async def test_predictions_from_another_log_get_the_tail(scenario: Scenario, seen: Seen) -> None:
    """Predictions from rounds that the log lacks or has replaced are not stored; the call returns the log's tail."""
    await scenario.play(3)
    tail = await scenario.store.add_predictions(scenario.key, sample_predictions("a"), WINDOW, seen)
    assert tail == await scenario.store.read_tail(scenario.key, seen.round_count - 1, 10)
    assert await scenario.counters() == (3, 3, 3)


@pytest.mark.parametrize(
    ("seen", "stored"),
    [
        (sample_seen(3, 10, MOMENT), True),
        (sample_seen(2, 10, MOMENT), True),
        (sample_seen(2, 10), True),
        (sample_seen(0, 10), True),
        (sample_seen(3, 10, OTHER_MOMENT), False),
        (sample_seen(2, 10, OTHER_MOMENT), False),
        (sample_seen(4, 10, MOMENT), False),
        (sample_seen(4, 10), False),
    ],
)
async def test_newer_rounds_are_allowed_only_after_the_same_log(scenario: Scenario, seen: Seen, stored: bool) -> None:
    """With `newer`, predictions are stored if the rounds they have seen are those of the log."""
    await scenario.play(3)
    reply = await scenario.store.add_predictions(
        scenario.key, sample_predictions("a"), WINDOW, seen._replace(newer=True)
    )
    assert (reply == [None]) is stored
    assert await scenario.counters() == (3, 3 + stored, 3)


@pytest.mark.parametrize(("rounds", "last_at", "kept"), [(3, MOMENT, 3), (3, OTHER_MOMENT, 1), (4, MOMENT, 1)])
async def test_a_snapshot_of_another_log_is_not_kept(
    scenario: Scenario, rounds: int, last_at: bytes, kept: int
) -> None:
    """A snapshot replaces the stored one only if its last round is in the log."""
    await scenario.play(3)
    assert await scenario.store.save_snapshot(scenario.key, Snapshot(1, b"first", MOMENT), 10) == 1
    assert await scenario.store.save_snapshot(scenario.key, Snapshot(rounds, b"second", last_at), 10) == kept


async def test_predictions_that_miss_rounds_get_the_tail(scenario: Scenario) -> None:
    """Predictions that miss rounds are not stored; the call returns the last seen round and the rounds after it."""
    await scenario.play(5)
    for seen, returned in ((2, [2, 3, 4]), (4, [4, 5])):
        tail = await scenario.store.add_predictions(scenario.key, sample_predictions("a"), WINDOW, sample_seen(seen, 2))
        assert tail == await scenario.store.read_tail(scenario.key, seen - 1, 3)
        assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (5, returned)
    assert await scenario.counters() == (5, 5, 5)
    assert await scenario.predict("a") == [None]


async def test_reusing_a_closed_predictions_id_returns_its_head(scenario: Scenario) -> None:
    """After feedback, the returned head has the outcome instead of zeros."""
    await scenario.play(1)
    (head,) = await scenario.predict("p0")
    whole = sample_predictions("p0", label=2)[0].record
    record, offsets = without_bodies(whole), block_offsets(whole)
    outcome = as_round(whole, 0, (True, NOW, 1), as_bytes(2))[4 : 4 + len(record) - offsets.outcomes]
    assert head == record[: offsets.open] + bytes(4) + outcome
    assert FORMAT.decode_stored(head) == FORMAT.decode_stored(record)


async def test_predictions_expire_in_time(scenario: Scenario, any_store_url: str) -> None:
    """A prediction's key keeps its expiry, also after feedback."""
    await scenario.predict("open", "closed")
    await scenario.judge(Feedback(id_of("closed"), True, None))
    with raw(any_store_url) as client:
        for own in ("open", "closed"):
            left = client.pttl(keys.block(*scenario.key, own))
            assert WINDOW - 60 < left / 1000 <= WINDOW


async def test_all_keys_of_a_model_are_in_one_slot(scenario: Scenario, any_store_url: str) -> None:
    """Each of a model's keys has exactly the model's name as its hash tag."""
    await scenario.play(1)
    await scenario.store.save_snapshot(scenario.key, Snapshot(1, b"state"), 10)
    found = keys_like(any_store_url, scenario.key.name)
    assert {key.split("}")[0].split("{")[1] for key in found} == {scenario.key.name}
    assert {key.rpartition(":")[2] for key in found} == {"model", "log", "snapshot", "p0"}

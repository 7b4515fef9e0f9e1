"""The laws of every store: a list of stores x a list of laws."""

import struct

import pytest

from service.errors import ModelNotFoundError
from service.store import keys
from service.store.base import Feedback, FeedbackStatus, Seen, Snapshot, Store
from service.store.stored_models import ModelKey
from tests.servers import keys_like, raw
from tests.service.store.places import Place
from tests.service.store.samples import (
    FORMAT,
    MOMENT,
    NOW,
    WINDOW,
    as_bytes,
    as_round,
    id_of,
    places_in,
    sample_predictions,
    without_bodies,
)

OTHER_MOMENT = struct.pack("<d", NOW + 1)
RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT


# --- models


async def test_a_model_is_read_as_it_was_created(place: Place) -> None:
    """Definition, moment of creation and incarnation come back unchanged, and its counters are zero."""
    assert await place.store.get_model(place.key.name) == (place.key, '{"a": 1}', NOW, 0, 0, 0, 0)


async def test_there_is_no_model_before_its_creation(any_store: Store, name: str) -> None:
    """An unknown name is answered with nothing, and deleting it says that there was none."""
    assert await any_store.get_model(name) is None
    assert not await any_store.delete_model(name)


async def test_a_name_is_given_once(place: Place) -> None:
    """Creating another model under a taken name changes nothing; the same creation repeated is one creation."""
    assert not await place.store.create_model(ModelKey(place.key.name, "other"), "{}", NOW + 1)
    assert await place.store.create_model(place.key, '{"a": 1}', NOW)
    assert await place.store.get_model(place.key.name) == (place.key, '{"a": 1}', NOW, 0, 0, 0, 0)


async def test_models_are_listed_by_name_a_page_at_a_time(any_store: Store, name: str) -> None:
    """Pages follow each other in the order of the names, without a gap or a repetition."""
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


async def test_the_last_page_says_so(any_store: Store) -> None:
    """Behind the last name there is an empty page without a cursor."""
    assert await any_store.list_models("~", 10) == ([], None)


async def test_a_deleted_model_is_gone(place: Place) -> None:
    """After its deletion a model is neither read nor listed, and is deleted only once."""
    assert await place.store.delete_model(place.key.name)
    assert await place.store.get_model(place.key.name) is None
    page = await place.store.list_models(place.key.name[:-1], 1000)
    assert place.key.name not in [model.name for model in page.models]
    assert not await place.store.delete_model(place.key.name)


async def test_a_deletion_leaves_nothing_but_predictions(place: Place, any_store_url: str) -> None:
    """Model, log and snapshot are gone at once; predictions are left to expire by themselves."""
    await place.play(2)
    await place.store.save_snapshot(place.key, Snapshot(2, b"state"), 10)
    await place.store.delete_model(place.key.name)
    assert keys_like(any_store_url, place.key.name) == [keys.block(*place.key, own) for own in ("p0", "p1")]


async def test_a_model_made_again_has_another_life(place: Place) -> None:
    """Log, counters, snapshot and predictions of the deleted model are out of its successor's reach."""
    await place.play(3)
    await place.predict("open")
    await place.store.save_snapshot(place.key, Snapshot(3, b"state"), 10)
    assert await place.store.delete_model(place.key.name)
    second = Place(place.store, ModelKey(place.key.name, "second"))
    assert await place.store.create_model(second.key, "{}", NOW)
    assert await second.counters() == (0, 0, 0)
    assert await second.numbers() == []
    assert await place.store.load_snapshot(second.key) is None
    assert await second.judge(Feedback(id_of("open"), True, None)) == [FeedbackStatus.UNKNOWN]
    assert await second.predict("open") == [None]


async def test_a_late_deletion_spares_the_next_life(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that began before the model was deleted and made again changes nothing."""
    former, name, look = place.key.incarnation.encode(), place.key.name, place.store.get_model
    await place.store.delete_model(name)
    second, seen, own = ModelKey(name, "second"), iter([former]), place.store._incarnation  # type: ignore[attr-defined]
    await place.store.create_model(second, "{}", NOW)

    async def late(name: str) -> bytes | None:
        return next(seen, None) or await own(name)

    monkeypatch.setattr(place.store, "_incarnation", late)
    assert not await place.store.delete_model(name)
    found = await look(name)
    assert found is not None
    assert found.key == second
    assert name in [model.name for model in (await place.store.list_models(name[:-1], 1000)).models]


@pytest.mark.parametrize("made_again", [False, True], ids=["deleted", "made-again"])
async def test_every_call_for_a_gone_model_says_so(place: Place, made_again: bool) -> None:
    """Predictions, feedback, reading the log and snapshots of a gone incarnation are refused, changing nothing."""
    await place.predict("open")
    await place.store.delete_model(place.key.name)
    if made_again:
        await place.store.create_model(ModelKey(place.key.name, "second"), "{}", NOW)
    before = await place.store.get_model(place.key.name)
    for call in (
        place.predict("other"),
        place.judge(Feedback(id_of("open"), True, None)),
        place.numbers(),
        place.store.save_snapshot(place.key, Snapshot(1, b"state"), 10),
    ):
        with pytest.raises(ModelNotFoundError) as refusal:
            await call
        assert refusal.value.field == "model"
    assert await place.store.get_model(place.key.name) == before
    assert await place.store.load_snapshot(place.key) is None


# --- predictions


async def test_a_prediction_is_stored_unless_its_id_is_in_use(place: Place) -> None:
    """The first record of an id stays; who comes later, even in the same call, is told its head."""
    assert await place.predict("a", "b", label=1) == [None, None]
    first = without_bodies(sample_predictions("a", label=1)[0].record)
    other = without_bodies(sample_predictions("a", "c", label=3)[1].record)
    assert await place.predict("a", "c", "c", label=3) == [first, None, other]
    assert await place.predict("a", label=3) == [first]
    assert await place.counters() == (0, 3, 0)


async def test_predictions_that_have_seen_every_round_are_stored(place: Place) -> None:
    """Predictions that say which rounds they take into account are stored if these are all there are."""
    await place.play(3)
    given = sample_predictions("a")
    for seen in (Seen(3, 10), Seen(3, 10, MOMENT)):
        assert isinstance(await place.store.add_predictions(place.key, given, WINDOW, seen), list)
    assert await place.counters() == (3, 4, 3)


@pytest.mark.parametrize("seen", [Seen(4, 10), Seen(4, 10, MOMENT), Seen(3, 10, OTHER_MOMENT)])
async def test_predictions_that_have_seen_rounds_of_another_log_are_told(place: Place, seen: Seen) -> None:
    """Whoever has seen rounds that the log no longer has, or others, is told what it has, and nothing is stored."""
    await place.play(3)
    tail = await place.store.add_predictions(place.key, sample_predictions("a"), WINDOW, seen)
    assert tail == await place.store.read_tail(place.key, seen.round_count - 1, 10)
    assert await place.counters() == (3, 3, 3)


@pytest.mark.parametrize(
    ("seen", "stored"),
    [
        (Seen(3, 10, MOMENT), True),
        (Seen(2, 10, MOMENT), True),
        (Seen(2, 10), True),
        (Seen(0, 10), True),
        (Seen(3, 10, OTHER_MOMENT), False),
        (Seen(2, 10, OTHER_MOMENT), False),
        (Seen(4, 10, MOMENT), False),
        (Seen(4, 10), False),
    ],
)
async def test_newer_rounds_may_be_there_where_that_is_said_and_no_others(
    place: Place, seen: Seen, stored: bool
) -> None:
    """Whoever allows for newer rounds has still seen those of this log, or is told what it has."""
    await place.play(3)
    there = await place.store.add_predictions(place.key, sample_predictions("a"), WINDOW, seen._replace(newer=True))
    assert (there == [None]) is stored
    assert await place.counters() == (3, 3 + stored, 3)


@pytest.mark.parametrize(("rounds", "last_at", "kept"), [(3, MOMENT, 3), (3, OTHER_MOMENT, 1), (4, MOMENT, 1)])
async def test_a_snapshot_of_another_log_is_not_kept(place: Place, rounds: int, last_at: bytes, kept: int) -> None:
    """A snapshot replaces the one there if its last round is in the log."""
    await place.play(3)
    assert await place.store.save_snapshot(place.key, Snapshot(1, b"first", MOMENT), 10) == 1
    assert await place.store.save_snapshot(place.key, Snapshot(rounds, b"second", last_at), 10) == kept


async def test_predictions_that_have_missed_rounds_are_told_them(place: Place) -> None:
    """If there are rounds that were not seen nothing is stored; the answer is the last seen and the tail behind it."""
    await place.play(5)
    for seen, told in ((2, [2, 3, 4]), (4, [4, 5])):
        tail = await place.store.add_predictions(place.key, sample_predictions("a"), WINDOW, Seen(seen, 2))
        assert tail == await place.store.read_tail(place.key, seen - 1, 3)
        assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (5, told)
    assert await place.counters() == (5, 5, 5)
    assert await place.predict("a") == [None]


async def test_a_closed_prediction_still_tells_its_head(place: Place) -> None:
    """Asking again after the feedback brings what was stored, and its outcome in the place of zeros."""
    await place.play(1)
    (told,) = await place.predict("p0")
    whole = sample_predictions("p0", label=2)[0].record
    record, places = without_bodies(whole), places_in(whole)
    outcome = as_round(whole, 0, (True, NOW, 1), as_bytes(2))[4 : 4 + len(record) - places.outcomes]
    assert told == record[: places.open] + bytes(4) + outcome
    assert FORMAT.decode_stored(told) == FORMAT.decode_stored(record)


async def test_predictions_are_forgotten_in_time(place: Place, any_store_url: str) -> None:
    """The key of a prediction expires when it was asked to, also after its feedback."""
    await place.predict("open", "closed")
    await place.judge(Feedback(id_of("closed"), True, None))
    with raw(any_store_url) as client:
        for own in ("open", "closed"):
            left = client.pttl(keys.block(*place.key, own))
            assert WINDOW - 60 < left / 1000 <= WINDOW


async def test_all_keys_of_a_model_are_in_one_slot(place: Place, any_store_url: str) -> None:
    """Every key but the list of names has the model's name, and nothing else, as its hash tag."""
    await place.play(1)
    await place.store.save_snapshot(place.key, Snapshot(1, b"state"), 10)
    found = keys_like(any_store_url, place.key.name)
    assert {key.split("}")[0].split("{")[1] for key in found} == {place.key.name}
    assert {key.rpartition(":")[2] for key in found} == {"model", "log", "snapshot", "p0"}

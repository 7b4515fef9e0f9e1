"""The laws of damaged predictions: no feedback makes a round of one, and no damaged round is learned from."""

import struct

import numpy as np
import pytest

from service.errors import StoreCorruptError
from service.store import keys
from service.store.base import Block, Feedback, FeedbackStatus, LogEntry
from service.store.log_entries import read_entries
from service.store.records.layout import HEAD
from service.store.records.round_table import Table
from service.store.redis.redis_store import RedisStore
from tests.servers import raw
from tests.service.store.record_kinds import KINDS, Kind, damaged_in, judged, new_model, record_of
from tests.service.store.samples import NOW, WINDOW, Places, as_round, ids_in, places_in

STATUS = FeedbackStatus
MASKS = [0xFF, 0x80, 0x01, 0x10]


def expected(at: int, place: Places) -> set[FeedbackStatus]:
    """What becomes of the predictions of a block with a damaged byte: all of them, or the one that it is of."""
    if at < place.open:
        return {STATUS.NEWER if at == 0 else STATUS.BROKEN}
    if at < place.outcomes:
        return {STATUS.RECORDED}  # the number of open ones
    return {STATUS.RECORDED, STATUS.BROKEN} if place.n > 1 else {STATUS.BROKEN}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_a_block_makes_a_round(
    store: RedisStore, name: str, kind: Kind, alone: bool, mask: int
) -> None:
    """Whatever byte changes: the prediction that it is of is broken, others of the block make their true rounds."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone)
    place, damaged, recorded = places_in(record), damaged_in(record, mask), 6
    for at, results in enumerate(await judged(store, key, kind, damaged, tokens)):
        statuses = [result.status for result in results]
        assert set(statuses) == expected(at, place), at
        assert statuses.count(STATUS.BROKEN) in {0, 1, len(tokens)}
        recorded += statuses.count(STATUS.RECORDED)
    stretch = read_entries(kind.format, (await store.read_tail(key, 0, 1_000_000)).entries, 0)
    assert stretch.rows is not None
    table = stretch.rows[0].copy()
    assert (stretch.damaged, len(table)) == ([], recorded)
    whole = {row.tobytes() for row in true_rows(kind)}
    table["round"] = 1
    table["token"] = 0
    assert {row.tobytes() for row in table} <= whole


def true_rows(kind: Kind) -> Table:
    """The rows that feedback makes of three predictions that are right; all of number 1, with no token."""
    record, _ = record_of(kind, alone=False)
    rounds = [as_round(record, i, (True, NOW, 1), truth) for i, truth in enumerate(truths(kind))]
    table = kind.format.table(rounds).copy()
    table["token"] = 0
    return table


def truths(kind: Kind) -> list[bytes]:
    """The answers of three predictions."""
    return kind.form.encode(np.array(kind.answers))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_an_outcome_is_answered(store: RedisStore, name: str, kind: Kind, mask: int) -> None:
    """Whatever byte of an outcome on record changes, it is broken; the others are duplicates still."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    await store.command("SET", keys.block(*key, "b"), record)
    said = [Feedback(own, True, None) for own in ids_in("b", tokens)]
    await store.add_feedback(key, said, kind.rules, NOW)
    closed: bytes = await store.command("GET", keys.block(*key, "b"))
    place = places_in(record)
    for at in range(place.outcomes, place.bodies):
        await store.command("SET", keys.block(*key, "b"), damaged_in(closed, mask)[at])
        statuses = [status for status, _ in await store.add_feedback(key, said, kind.rules, NOW)]
        broken = (at - place.outcomes) // (place.outcome(1) - place.outcome(0))
        assert statuses == [STATUS.BROKEN if i == broken else STATUS.DUPLICATE for i in range(3)], at
        with pytest.raises(StoreCorruptError):
            kind.format.check_block(damaged_in(closed, mask)[at])
    kind.format.check_block(closed)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("together", [True, False], ids=["one-entry", "three-entries"])
def test_no_damaged_byte_of_the_log_is_learned_from(kind: Kind, mask: int, together: bool) -> None:
    """Whatever byte of an entry changes: that one round is damaged, and the others are read to the bit."""
    record, _ = record_of(kind, alone=False)
    rounds = [as_round(record, i, (True, NOW, i + 1), truth) for i, truth in enumerate(truths(kind))]
    table, whole = kind.format.table(rounds), b"".join(rounds)
    ends, numbers = np.cumsum([len(each) for each in rounds]), [3] if together else [1, 2, 3]
    for at, damaged in enumerate(damaged_in(whole, mask)):
        begins = [0, *ends[:-1]]
        parts = [damaged] if together else [damaged[start:end] for start, end in zip(begins, ends, strict=True)]
        entries = [LogEntry(number, "b", part) for number, part in zip(numbers, parts, strict=True)]
        stretch = read_entries(kind.format, entries, 0)
        bad = int(np.searchsorted(ends, at, side="right"))
        assert [(each.first, each.last) for each in stretch.damaged] == [(bad + 1, bad + 1)], at
        assert stretch.rows is not None
        assert stretch.rows[0].tobytes() == np.delete(table, bad).tobytes()


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_the_search_finds_what_feedback_would(kind: Kind, alone: bool) -> None:
    """Every damaged byte of an open block but those of the number of open ones."""
    record, _ = record_of(kind, alone)
    kind.format.check_block(record)
    place = places_in(record)
    for mask in MASKS:
        for at, damaged in enumerate(damaged_in(record, mask)):
            if place.open <= at < place.outcomes:
                kind.format.check_block(damaged)
            elif at > 0:
                with pytest.raises(StoreCorruptError):
                    kind.format.check_block(damaged)


@pytest.mark.parametrize("script", ["add_feedback", "add_predictions"])
async def test_a_wild_length_takes_no_memory(store: RedisStore, store_url: str, name: str, script: str) -> None:
    """However long a record says that its parts are, the store makes nothing of that length."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=True)
    lengths = [HEAD.place("predictions"), HEAD.place("answer_bytes"), HEAD.size, places_in(record).open]
    wild = [record[:at] + b"\xff\xff\xff\x3f" + record[at + 4 :] for at in lengths]
    with raw(store_url) as client:
        client.config_resetstat()
        before = client.info("memory")["used_memory_peak"]
        if script == "add_feedback":
            for results in await judged(store, key, kind, wild, tokens):
                assert results[0].status in {STATUS.BROKEN, STATUS.RECORDED}
        else:
            for i, each in enumerate(wild):
                await store.command("SET", keys.block(*key, f"w{i}"), each)
            blocks = [Block(f"w{i}", record) for i in range(len(wild))]
            assert None not in list(await store.add_predictions(key, blocks, WINDOW, None))
        after = client.info("memory")["used_memory_peak"]
    assert after - before < 10_000_000


@pytest.mark.parametrize("count", [0, 1, 2, 200])
async def test_a_damaged_count_of_open_ones_loses_no_body(store: RedisStore, name: str, count: int) -> None:
    """Bodies stay as long as a prediction is open, whatever the record says of how many are."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    at = places_in(record).open
    changed = record[:at] + struct.pack("<I", count) + record[at + 4 :]
    await store.command("SET", keys.block(*key, "b"), changed)
    for own in ids_in("b", tokens):
        (result,) = await store.add_feedback(key, [Feedback(own, True, None)], kind.rules, NOW)
        assert result.status is STATUS.RECORDED

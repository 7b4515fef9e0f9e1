"""The laws of damaged predictions: feedback makes no round of one, and no damaged round is learned from."""

import struct

import numpy as np
import pytest

from service.errors import StoreCorruptError
from service.store import keys
from service.store.log_entries import read_entries
from service.store.records.layout import HEAD, VERSION
from service.store.records.round_table import Table
from service.store.redis.redis_store import RedisStore
from service.store.values import Block, Feedback, FeedbackStatus, LogEntry
from tests.servers import raw
from tests.service.store.record_kinds import KINDS, Kind, judged, new_model, record_of, with_each_byte_changed
from tests.service.store.samples import NOW, WINDOW, BlockOffsets, as_round, block_offsets, ids_in

STATUS = FeedbackStatus
MASKS = [0xFF, 0x01]
"""All bits of a byte, and one. A checksum covers the bytes, so other single bits are damaged alike."""


def expected(at: int, mask: int, offsets: BlockOffsets) -> set[FeedbackStatus]:
    """Return the possible statuses of a block's predictions after damage to the byte at this offset."""
    if at < offsets.open:
        return {STATUS.NEWER if at == 0 and VERSION ^ mask > VERSION else STATUS.BROKEN}
    if at < offsets.outcomes:
        return {STATUS.RECORDED}  # the count of open predictions
    return {STATUS.RECORDED, STATUS.BROKEN} if offsets.n > 1 else {STATUS.BROKEN}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_a_block_makes_a_round(
    store: RedisStore, name: str, kind: Kind, alone: bool, mask: int
) -> None:
    """The prediction of the changed byte is broken; the block's others make their true rounds."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone)
    offsets, damaged, recorded = block_offsets(record), with_each_byte_changed(record, mask), 6
    for at, results in enumerate(await judged(store, key, kind, damaged, tokens)):
        statuses = [result.status for result in results]
        assert set(statuses) == expected(at, mask, offsets), at
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
    """Return the rows that feedback makes of three correct predictions, with round number 1 and token 0."""
    record, _ = record_of(kind, alone=False)
    rounds = [as_round(record, i, (True, NOW, 1), truth) for i, truth in enumerate(truths(kind))]
    table = kind.format.table(rounds).copy()
    table["token"] = 0
    return table


def truths(kind: Kind) -> list[bytes]:
    """Return the encoded answers of three predictions."""
    return kind.form.encode(np.array(kind.answers))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_an_outcome_is_answered(store: RedisStore, name: str, kind: Kind, mask: int) -> None:
    """An outcome with a changed byte is broken; the others are still duplicates."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    await store.command("SET", keys.block(*key, "b"), record)
    feedback = [Feedback(own, True, None) for own in ids_in("b", tokens)]
    await store.add_feedback(key, feedback, kind.rules, NOW)
    closed: bytes = await store.command("GET", keys.block(*key, "b"))
    offsets = block_offsets(record)
    for at in range(offsets.outcomes, offsets.bodies):
        await store.command("SET", keys.block(*key, "b"), with_each_byte_changed(closed, mask)[at])
        statuses = [status for status, _ in await store.add_feedback(key, feedback, kind.rules, NOW)]
        broken = (at - offsets.outcomes) // (offsets.outcome(1) - offsets.outcome(0))
        assert statuses == [STATUS.BROKEN if i == broken else STATUS.DUPLICATE for i in range(3)], at
        with pytest.raises(StoreCorruptError):
            kind.format.waiting(with_each_byte_changed(closed, mask)[at])
    kind.format.waiting(closed)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("together", [True, False], ids=["one-entry", "three-entries"])
def test_no_damaged_byte_of_the_log_is_learned_from(kind: Kind, mask: int, together: bool) -> None:
    """With any byte of the log changed, only its round is damaged; the others are read to the bit."""
    record, _ = record_of(kind, alone=False)
    rounds = [as_round(record, i, (True, NOW, i + 1), truth) for i, truth in enumerate(truths(kind))]
    table, whole = kind.format.table(rounds), b"".join(rounds)
    ends, numbers = np.cumsum([len(each) for each in rounds]), [3] if together else [1, 2, 3]
    for at, damaged in enumerate(with_each_byte_changed(whole, mask)):
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
def test_the_search_finds_what_feedback_finds(kind: Kind, alone: bool) -> None:
    """The search finds every damaged byte of an open block except in the count of open predictions."""
    record, _ = record_of(kind, alone)
    kind.format.waiting(record)
    offsets = block_offsets(record)
    for mask in MASKS:
        for at, damaged in enumerate(with_each_byte_changed(record, mask)):
            if offsets.open <= at < offsets.outcomes:
                kind.format.waiting(damaged)
            elif at > 0:
                with pytest.raises(StoreCorruptError):
                    kind.format.waiting(damaged)


@pytest.mark.parametrize("script", ["add_feedback", "add_predictions"])
async def test_a_damaged_length_allocates_no_memory(store: RedisStore, store_url: str, name: str, script: str) -> None:
    """A damaged length in a record does not make the store allocate that much."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=True)
    lengths = [HEAD.place("predictions"), HEAD.place("answer_bytes"), HEAD.size, block_offsets(record).open]
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
async def test_a_damaged_open_count_loses_no_body(store: RedisStore, name: str, count: int) -> None:
    """Bodies stay while a prediction is open, whatever count the record has."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    at = block_offsets(record).open
    changed = record[:at] + struct.pack("<I", count) + record[at + 4 :]
    await store.command("SET", keys.block(*key, "b"), changed)
    for own in ids_in("b", tokens):
        (result,) = await store.add_feedback(key, [Feedback(own, True, None)], kind.rules, NOW)
        assert result.status is STATUS.RECORDED

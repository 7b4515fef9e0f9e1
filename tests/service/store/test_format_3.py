"""The laws of data from release 0.1.0: open predictions of version 3 accept feedback, and the rounds are read back."""

import struct

import numpy as np
import pytest

from service.errors import StoreCorruptError
from service.store import keys
from service.store.base import Feedback, FeedbackStatus
from service.store.log_entries import read_entries
from service.store.records.format_3 import VERSION
from service.store.redis.redis_store import RedisStore
from tests.service.store.record_kinds import KINDS, Kind, judged, new_model, record_of, with_each_byte_changed
from tests.service.store.samples import NOW, ids_in

STATUS = FeedbackStatus
ONES = b"\xff" * 8  # also a NaN
NAN, INFINITY = (struct.pack("<d", value) for value in (float("nan"), float("-inf")))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("mask", [0xFF, 0x80, 0x01, 0x10])
async def test_no_damaged_byte_makes_a_round_that_cannot_be_read(
    store: RedisStore, name: str, kind: Kind, alone: bool, mask: int
) -> None:
    """With any byte changed, each prediction makes a readable round or none, and other blocks are unaffected."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone, VERSION)
    for results in await judged(store, key, kind, with_each_byte_changed(record, mask), tokens, VERSION):
        statuses = {result.status for result in results}
        assert statuses <= {STATUS.RECORDED, STATUS.BROKEN, STATUS.NEWER, STATUS.UNKNOWN, STATUS.EXPIRED}
    entries = (await store.read_tail(key, 0, 1_000_000)).entries
    stretch = read_entries(kind.format, entries, 0)
    assert stretch.rows is not None
    table = stretch.rows[0]
    assert {entry.version for entry in entries} == {VERSION}
    assert stretch.damaged == []
    assert table["round"].tolist() == list(range(1, len(table) + 1))
    assert (table["propensity"] == 1 / 3).all()
    assert {tuple(np.ravel(row)) for row in table["output"].tolist()} <= {tuple(np.ravel(row)) for row in kind.answers}


def _each_wrong(offsets: dict[str, int], values: tuple[bytes, ...]) -> dict[str, tuple[int, bytes]]:
    """Return every value at every offset, by name."""
    return {f"{what} {value.hex()}": (at, value) for what, at in offsets.items() for value in values}


def impossible_values(kind: Kind, record: bytes, i: int) -> dict[str, tuple[int, bytes]]:
    """Return offsets and impossible values for the i-th prediction, by what they damage."""
    shape, n = kind.format.shape, struct.unpack_from("<I", record, 1)[0]
    answer = shape.answer_bytes
    head = 45 + n * (17 + answer) + i * (24 + answer)
    begin, end = struct.unpack_from("<II", record, head + 16 + answer)
    bodies = 45 + n * (17 + answer + 24 + answer)
    body, after = bodies + begin, bodies + begin + answer
    numbers = {"head: propensity": head, "propensity": after, "moment": after + 16, "residual_uniform": after + 24}
    bounds = {"head: from": head + 16 + answer, "head: upto": head + 20 + answer}
    wrong_bounds = (b"\xff" * 4, struct.pack("<I", begin + 4), struct.pack("<I", end - 1))
    found = _each_wrong(numbers | {"evidence": after + 32}, (NAN, INFINITY, ONES)) | _each_wrong(bounds, wrong_bounds)
    found |= {
        "answer": (body, b"\x7f" * answer),
        "head: answer": (head + 8, b"\x7f" * answer),
        "propensity 0": (after, bytes(8)),
        "propensity 1.0000000000000002": (after, struct.pack("<d", 1 + 2**-52)),
        "leftover 1": (after + 24, struct.pack("<d", 1.0)),
        "expires": (29, NAN),
        "length of an answer": (9, b"\xff\xff\xff\xff"),
        "predictions": (1, b"\xff\xff\xff\xff"),
        "no predictions": (1, bytes(4)),
        "a large answer": (9, b"\xff\xff\xff\x0f"),
        "another length of an answer": (9, struct.pack("<I", answer - 1)),
        "rounds seen": (37, b"\x01"),
    }
    if end - begin > shape.body_bytes:
        pair = bodies + begin + shape.body_bytes
        found |= {"index": (pair, b"\x07\0\0\0"), "index below 0": (pair, b"\xff" * 4), "number": (pair + 4, NAN)}
        found |= {"a pair less": (head + 20 + answer, struct.pack("<I", end - 12))}
    elif not shape.sparse_features:
        found |= {"context": (bodies + end - 8, NAN), "first of the context": (bodies + end - 24, INFINITY)}
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
async def test_impossible_numbers_make_no_round(store: RedisStore, name: str, kind: Kind, alone: bool) -> None:
    """An impossible value is found in head and body, and by the search of blocks."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone, VERSION)
    kind.format.check_block(record)
    found = impossible_values(kind, record, 0)
    damaged = [record[:at] + new + record[at + len(new) :] for at, new in found.values()]
    for what, each, results in zip(
        found, damaged, await judged(store, key, kind, damaged, tokens, VERSION), strict=True
    ):
        assert results[0] == (STATUS.BROKEN, None), what
        if what != "expires":
            with pytest.raises(StoreCorruptError):
                kind.format.check_block(each)
    assert (await store.read_tail(key, 0, 1)).round_count >= 6


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
async def test_an_impossible_propensity_makes_no_round(store: RedisStore, name: str, kind: Kind) -> None:
    """An impossible propensity is refused even if head and body agree; 0 is valid only where it may underflow."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, True, VERSION)
    wrong = [-0.5, -5e-324, 1 + 2**-52, 2.0, float("inf"), float("nan"), 0.0]
    damaged = [record.replace(struct.pack("<d", 1 / 3), struct.pack("<d", p)) for p in wrong]
    statuses = [results[0].status for results in await judged(store, key, kind, damaged, tokens, VERSION)]
    last = STATUS.BROKEN if kind.format.shape.kind == "label" else STATUS.RECORDED
    assert statuses == [STATUS.BROKEN] * 6 + [last]


@pytest.mark.parametrize("outcome", ["correct", "moment", "round", "truth"])
async def test_a_damaged_outcome_is_broken(store: RedisStore, name: str, outcome: str) -> None:
    """A damaged outcome is refused, whether it is the zeros of an open prediction or a closed one's."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, False, VERSION)
    at = 45 + {"correct": 0, "moment": 8, "round": 15, "truth": 17}[outcome]
    opened = record[:at] + b"\x41" + record[at + 1 :]
    (results,) = await judged(store, key, kind, [opened], tokens, VERSION)
    assert [status for status, _ in results] == [STATUS.BROKEN, STATUS.RECORDED, STATUS.RECORDED]
    await store.command("SETRANGE", keys.block(*key, "before"), at, b"\x41")
    feedback = [Feedback(own, True, None) for own in ids_in("before", tokens)]
    again = await store.add_feedback(key, feedback, kind.rules, NOW)
    first = STATUS.DUPLICATE if outcome == "moment" else STATUS.BROKEN
    assert [status for status, _ in again] == [first, STATUS.DUPLICATE, STATUS.DUPLICATE]


@pytest.mark.parametrize("count", [0, 1, 2, 200])
async def test_a_damaged_open_count_of_version_3_loses_no_body(store: RedisStore, name: str, count: int) -> None:
    """Bodies stay while a prediction is open, whatever count the record has."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, False, VERSION)
    await store.command("SET", keys.block(*key, "b"), record[:5] + struct.pack("<I", count) + record[9:])
    for own in ids_in("b", tokens):
        (result,) = await store.add_feedback(key, [Feedback(own, True, None)], kind.rules, NOW)
        assert result.status is STATUS.RECORDED

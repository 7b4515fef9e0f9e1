"""The laws of damaged predictions: no feedback makes a round of one that a reader would refuse."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import Contexts
from service.errors import StoreCorruptError
from service.store import keys
from service.store.base import Block, Feedback, FeedbackResult, FeedbackRules, FeedbackStatus
from service.store.records.answer_codec import label_codec, label_set_codec, ranking_codec
from service.store.records.blocks import check_block
from service.store.records.context_codec import DenseCodec, SparseCodec
from service.store.records.records import NewPredictions, RecordFormat
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.tokens import tokens_of
from tests.servers import raw
from tests.service.store.samples import NOW, WINDOW, id_of

STATUS = FeedbackStatus
ONES = b"\xff" * 8  # no number either
NAN, INFINITY = (struct.pack("<d", value) for value in (float("nan"), float("-inf")))


class Kind(NamedTuple):
    """Predictions of one kind."""

    format: RecordFormat
    answers: list[Any]
    contexts: Contexts


DENSE = Contexts.dense(np.linspace(-1.0, 1.0, 9).reshape(3, 3))
THIN = Contexts.sparse([2, 0, 1], [6, 0, 3], [0.5, -0.25, 1.0])
KINDS = {
    "dense": Kind(RecordFormat(label_codec(4), 2, DenseCodec(3)), [2, 0, 3], DENSE),
    "sparse": Kind(RecordFormat(label_codec(4), 2, SparseCodec(7)), [2, 0, 3], THIN),
    "label-set": Kind(
        RecordFormat(label_set_codec(4), 1, DenseCodec(3)), [[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], DENSE
    ),
    "ranking": Kind(RecordFormat(ranking_codec(3), 1, DenseCodec(3)), [[0, 2, 1], [0, 1, 2], [2, 1, 0]], DENSE),
}


def made_of(kind: Kind) -> NewPredictions:
    """Three predictions."""
    form, n = kind.format._output, 3
    evidence = np.linspace(0.1, 0.9, n * kind.format._body["evidence"].shape[0]).reshape(n, -1)
    outputs = form.rows(np.array(kind.answers))
    return NewPredictions(outputs, np.full(n, 1 / 3), np.full(n, 0.25), evidence, kind.contexts, NOW, NOW + WINDOW, 7)


def record_of(kind: Kind, alone: bool) -> tuple[bytes, list[int]]:
    """A block of three predictions, or the first alone; with its tokens."""
    bounds = [0, 1, 2, 3] if alone else [0, 3]
    tokens = tokens_of(bounds, "secret")
    return kind.format.encode_blocks(made_of(kind), bounds, tokens, [bytes(16)] * (3 if alone else 1))[0], (
        tokens[:1] if alone else tokens
    ).tolist()


def right(block: str, token: int) -> Feedback:
    """Feedback that a prediction was right."""
    return Feedback(id_of(block, token), True, None)


async def new_model(store: RedisStore, name: str) -> ModelKey:
    """A model without rounds."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    return key


async def judged(
    store: RedisStore, key: ModelKey, kind: Kind, records: Sequence[bytes], tokens: Sequence[int]
) -> list[list[FeedbackResult]]:
    """What becomes of feedback for each prediction of each of these blocks, between two whole ones, in one call."""
    rules = FeedbackRules(accept_late=False, label_needed=False, shape=kind.format.shape)
    whole, _ = record_of(kind, alone=False)
    names = [f"b{i}" for i in range(len(records))]
    for name, record in zip(["before", *names, "after"], [whole, *records, whole], strict=True):
        await store.command("SET", keys.block(*key, name), record)
    about = tokens_of([0, 3], "secret").tolist()
    said = [("before", about), *((name, tokens) for name in names), ("after", about)]
    given = [right(block, token) for block, tokens_in in said for token in tokens_in]
    results = await store.add_feedback(key, given, rules, NOW)
    assert {result.status for result in [*results[:3], *results[-3:]]} == {STATUS.RECORDED}
    n = len(tokens)
    return [results[3 + i * n : 3 + (i + 1) * n] for i in range(len(records))]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("mask", [0xFF, 0x80, 0x01, 0x10])
async def test_no_damaged_byte_makes_a_round_that_cannot_be_read(
    store: RedisStore, name: str, kind: Kind, alone: bool, mask: int
) -> None:
    """Whatever byte of a record changes: each of its predictions makes a readable round or none, others are as ever."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone)
    damaged = [record[:i] + bytes([record[i] ^ mask]) + record[i + 1 :] for i in range(len(record))]
    for results in await judged(store, key, kind, damaged, tokens):
        statuses = {result.status for result in results}
        assert statuses <= {STATUS.RECORDED, STATUS.BROKEN, STATUS.NEWER, STATUS.UNKNOWN, STATUS.EXPIRED}
    entries = (await store.read_tail(key, 0, 1_000_000)).entries
    table = kind.format.table([entry.payload for entry in entries])
    assert table["round"].tolist() == list(range(1, len(table) + 1))
    assert (table["propensity"] == 1 / 3).all()
    assert {tuple(np.ravel(row)) for row in table["output"].tolist()} <= {tuple(np.ravel(row)) for row in kind.answers}


def _each_wrong(places: dict[str, int], values: tuple[bytes, ...]) -> dict[str, tuple[int, bytes]]:
    """Every value in every place."""
    return {f"{what} {value.hex()}": (at, value) for what, at in places.items() for value in values}


def places(kind: Kind, record: bytes, i: int) -> dict[str, tuple[int, bytes]]:
    """Where impossible numbers are put into the i-th prediction, and which; by what they are."""
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
    """Each is found in either place where it is kept; the search of blocks finds it as well."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone)
    check_block(kind.format, record)
    found = places(kind, record, 0)
    damaged = [record[:at] + new + record[at + len(new) :] for at, new in found.values()]
    for what, each, results in zip(found, damaged, await judged(store, key, kind, damaged, tokens), strict=True):
        assert results[0] == (STATUS.BROKEN, None), what
        if what != "expires":
            with pytest.raises(StoreCorruptError):
                check_block(kind.format, each)
    assert (await store.read_tail(key, 0, 1)).round_count >= 6


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
async def test_an_impossible_propensity_makes_no_round(store: RedisStore, name: str, kind: Kind) -> None:
    """Also where head and body agree on it; 0 is possible where it may be too small for a number."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=True)
    wrong = [-0.5, -5e-324, 1 + 2**-52, 2.0, float("inf"), float("nan"), 0.0]
    damaged = [record.replace(struct.pack("<d", 1 / 3), struct.pack("<d", p)) for p in wrong]
    statuses = [results[0].status for results in await judged(store, key, kind, damaged, tokens)]
    last = STATUS.BROKEN if kind.format.shape.kind == "label" else STATUS.RECORDED
    assert statuses == [STATUS.BROKEN] * 6 + [last]


@pytest.mark.parametrize("script", ["add_feedback", "add_predictions"])
async def test_a_wild_length_takes_no_memory(store: RedisStore, store_url: str, name: str, script: str) -> None:
    """However long a record says that its parts are, the store makes nothing of that length."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=True)
    wild = [record[:at] + b"\xff\xff\xff\x3f" + record[at + 4 :] for at in (1, 5, 9)]
    with raw(store_url) as client:
        client.config_resetstat()
        before = client.info("memory")["used_memory_peak"]
        if script == "add_feedback":
            for results in await judged(store, key, kind, wild, tokens):
                assert results[0].status in {STATUS.BROKEN, STATUS.RECORDED}
        else:
            for i, each in enumerate(wild):
                await store.command("SET", keys.block(*key, f"w{i}"), each)
            blocks = [Block(f"w{i}", record) for i in range(3)]
            assert None not in list(await store.add_predictions(key, blocks, WINDOW, None))
        after = client.info("memory")["used_memory_peak"]
    assert after - before < 10_000_000


@pytest.mark.parametrize("outcome", ["correct", "moment", "round", "truth"])
async def test_a_damaged_outcome_is_no_duplicate(store: RedisStore, name: str, outcome: str) -> None:
    """Neither the zeros of an open prediction nor the outcome of a closed one are answered once they are damaged."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    at = 45 + {"correct": 0, "moment": 8, "round": 15, "truth": 17}[outcome]
    opened = record[:at] + b"\x41" + record[at + 1 :]
    (results,) = await judged(store, key, kind, [opened], tokens)
    assert [status for status, _ in results] == [STATUS.BROKEN, STATUS.RECORDED, STATUS.RECORDED]
    await store.command("SETRANGE", keys.block(*key, "before"), at, b"\x41")
    rules = FeedbackRules(accept_late=False, label_needed=False, shape=kind.format.shape)
    said = [right("before", token) for token in tokens]
    again = await store.add_feedback(key, said, rules, NOW)
    first = STATUS.DUPLICATE if outcome == "moment" else STATUS.BROKEN
    assert [status for status, _ in again] == [first, STATUS.DUPLICATE, STATUS.DUPLICATE]


@pytest.mark.parametrize("count", [0, 1, 2, 200])
async def test_a_damaged_count_of_open_ones_loses_no_body(store: RedisStore, name: str, count: int) -> None:
    """Bodies stay as long as a prediction is open, whatever the record says of how many are."""
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    await store.command("SET", keys.block(*key, "b"), record[:5] + struct.pack("<I", count) + record[9:])
    rules = FeedbackRules(accept_late=False, label_needed=False, shape=kind.format.shape)
    for token in tokens:
        (result,) = await store.add_feedback(key, [right("b", token)], rules, NOW)
        assert result.status is STATUS.RECORDED

"""The laws of predictions that are damaged or of a later version: no feedback makes a round of them."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import Contexts
from service.errors import NewerVersionError, StoreCorruptError
from service.prediction_id import tokens_of
from service.store import keys
from service.store.log_entries import read_entries
from service.store.records.codecs import (
    AnswerCodec,
    ContextCodec,
    DenseCodec,
    SparseCodec,
    label_codec,
    label_set_codec,
    ranking_codec,
)
from service.store.records.layout import CHECK, HEAD, OUTCOME, PREDICTION, VERSION
from service.store.records.new_predictions import NewPredictions
from service.store.records.optional_fields import GIVEN_COSTS, NO_OPTIONAL_FIELDS, OptionalFields
from service.store.records.records import RecordFormat
from service.store.records.round_table import Table
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Block, Feedback, FeedbackResult, FeedbackStatus
from tests.servers import raw
from tests.service.store.samples import (
    NOW,
    STRICT,
    WINDOW,
    BlockOffsets,
    as_round,
    block_offsets,
    check_bytes,
    ids_in,
    new_model,
    new_predictions,
)

STATUS = FeedbackStatus
MASKS = [0xFF, 0x01]
"""All bits of a byte, and one. A checksum covers the bytes, so other single bits are damaged alike."""


class Kind(NamedTuple):
    """Three predictions of one kind."""

    form: AnswerCodec
    evidence_size: int
    codec: ContextCodec
    answers: list[Any]
    contexts: Contexts

    @property
    def format(self) -> RecordFormat:
        return RecordFormat(self.form, self.evidence_size, self.codec)

    def truths(self) -> list[bytes]:
        """Encode the answers."""
        return self.form.encode(np.array(self.answers))

    def record(self, alone: bool) -> tuple[bytes, list[int]]:
        """Return a block of three predictions, or of the first alone, and its tokens."""
        bounds = [0, 1, 2, 3] if alone else [0, 3]
        evidence, tokens = np.linspace(0.1, 0.9, 3 * self.evidence_size).reshape(3, -1), tokens_of(bounds, "secret")
        made = new_predictions(self.form, self.answers, self.contexts, evidence)
        blocks = self.format.encode_blocks(made, bounds, tokens, [bytes(16)] * (3 if alone else 1))
        return blocks[0], tokens[:1] if alone else tokens


DENSE = Contexts.dense(np.linspace(-1.0, 1.0, 9).reshape(3, 3))
KINDS = {
    "dense": Kind(label_codec(4), 2, DenseCodec(3), [2, 0, 3], DENSE),
    "sparse": Kind(
        label_codec(4), 2, SparseCodec(7), [2, 0, 3], Contexts.sparse([2, 0, 1], [6, 0, 3], [0.5, -0.25, 1])
    ),
    "float32": Kind(label_codec(4), 0, DenseCodec(4, "<f4"), [2, 0, 3], Contexts.dense(np.eye(3, 4) - 0.25)),
    "label-set": Kind(label_set_codec(4), 1, DenseCodec(3), [[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], DENSE),
    "ranking": Kind(ranking_codec(3), 1, DenseCodec(3), [[0, 2, 1], [0, 1, 2], [2, 1, 0]], DENSE),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def with_each_byte_changed(record: bytes, mask: int) -> list[bytes]:
    return [record[:i] + bytes([record[i] ^ mask]) + record[i + 1 :] for i in range(len(record))]


async def judged(
    store: RedisStore, key: ModelKey, kind: Kind, records: Sequence[bytes], tokens: Sequence[int]
) -> list[list[FeedbackResult]]:
    """Store these blocks between two intact ones; return the results of one feedback call, by block and prediction."""
    whole, about = kind.record(False)
    names = ["before", *(f"b{i}" for i in range(len(records))), "after"]
    for name, record in zip(names, [whole, *records, whole], strict=True):
        await store.command("SET", keys.block(*key, name), record)
    ids = [own for name in names for own in ids_in(name, about if name in ("before", "after") else tokens)]
    results = await store.add_feedback(key, [Feedback(own, True, None) for own in ids], STRICT, NOW)
    assert {result.status for result in [*results[:3], *results[-3:]]} == {STATUS.RECORDED}
    n = len(tokens)
    return [results[3 + i * n : 3 + (i + 1) * n] for i in range(len(records))]


def expected(at: int, mask: int, offsets: BlockOffsets) -> set[FeedbackStatus]:
    """Return the possible statuses of a block's predictions after damage to the byte at this offset."""
    if at < offsets.open:
        return {STATUS.NEWER if at == 0 and VERSION ^ mask > VERSION else STATUS.BROKEN}
    if at < offsets.outcomes:
        return {STATUS.RECORDED}  # the count of open predictions
    return {STATUS.RECORDED, STATUS.BROKEN} if offsets.n > 1 else {STATUS.BROKEN}


@EACH_KIND
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_a_block_makes_a_round(
    store: RedisStore, name: str, kind: Kind, alone: bool, mask: int
) -> None:
    """The prediction of the changed byte is broken; the block's others make their true rounds; a search agrees."""
    key, (record, tokens) = await new_model(store, name), kind.record(alone)
    offsets, damaged, recorded = block_offsets(record), with_each_byte_changed(record, mask), 6
    kind.format.waiting(record)
    for at, results in enumerate(await judged(store, key, kind, damaged, tokens)):
        statuses = [result.status for result in results]
        assert set(statuses) == expected(at, mask, offsets), at
        assert statuses.count(STATUS.BROKEN) in {0, 1, len(tokens)}
        recorded += statuses.count(STATUS.RECORDED)
        if offsets.open <= at < offsets.outcomes:
            kind.format.waiting(damaged[at])
        elif at > 0:
            with pytest.raises(StoreCorruptError):
                kind.format.waiting(damaged[at])
    stretch = read_entries(kind.format, (await store.read_tail(key, 0, 1_000_000)).entries, 0)
    assert stretch.rows is not None
    table = stretch.rows[0].copy()
    assert (stretch.damaged, len(table)) == ([], recorded)
    table["round"], table["token"] = 1, 0
    assert {row.tobytes() for row in table} <= {row.tobytes() for row in true_rows(kind)}


def true_rows(kind: Kind) -> Table:
    """Return the rows that feedback makes of three correct predictions, with round number 1 and token 0."""
    record, _ = kind.record(alone=False)
    rounds = [as_round(record, i, (True, NOW, 1), truth) for i, truth in enumerate(kind.truths())]
    table = kind.format.table(rounds).copy()
    table["token"] = 0
    return table


@EACH_KIND
@pytest.mark.parametrize("mask", MASKS)
async def test_no_damaged_byte_of_an_outcome_is_answered(store: RedisStore, name: str, kind: Kind, mask: int) -> None:
    key, (record, tokens) = await new_model(store, name), kind.record(alone=False)
    await store.command("SET", keys.block(*key, "b"), record)
    feedback = [Feedback(own, True, None) for own in ids_in("b", tokens)]
    await store.add_feedback(key, feedback, STRICT, NOW)
    closed: bytes = await store.command("GET", keys.block(*key, "b"))
    offsets = block_offsets(record)
    for at in range(offsets.outcomes, offsets.bodies):
        damaged = with_each_byte_changed(closed, mask)[at]
        await store.command("SET", keys.block(*key, "b"), damaged)
        statuses = [status for status, _ in await store.add_feedback(key, feedback, STRICT, NOW)]
        broken = (at - offsets.outcomes) // (offsets.outcome(1) - offsets.outcome(0))
        assert statuses == [STATUS.BROKEN if i == broken else STATUS.DUPLICATE for i in range(3)], at
        with pytest.raises(StoreCorruptError):
            kind.format.waiting(damaged)
    kind.format.waiting(closed)


@pytest.mark.parametrize("script", ["add_feedback", "add_predictions"])
async def test_a_damaged_length_allocates_no_memory(store: RedisStore, store_url: str, name: str, script: str) -> None:
    kind = KINDS["dense"]
    key, (record, tokens) = await new_model(store, name), kind.record(alone=True)
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
    key, (record, tokens) = await new_model(store, name), KINDS["dense"].record(alone=False)
    at = block_offsets(record).open
    await store.command("SET", keys.block(*key, "b"), record[:at] + struct.pack("<I", count) + record[at + 4 :])
    for own in ids_in("b", tokens):
        (result,) = await store.add_feedback(key, [Feedback(own, True, None)], STRICT, NOW)
        assert result.status is STATUS.RECORDED


# --- intact content of a later version


def with_flags(record: bytes, flags: int) -> bytes:
    """Return a block with these flags and a matching checksum."""
    at, offsets = HEAD.place("flags"), block_offsets(record)
    checked = record[:at] + bytes([flags]) + record[at + 1 : offsets.check]
    return checked + check_bytes(checked) + record[offsets.open :]


@EACH_KIND
@pytest.mark.parametrize("flags", [1, 0x80])
async def test_a_block_with_unknown_flags_is_newer(store: RedisStore, name: str, kind: Kind, flags: int) -> None:
    key, (record, tokens) = await new_model(store, name), kind.record(alone=True)
    flagged = with_flags(record, flags)
    await store.command("SET", keys.block(*key, "b"), flagged)
    (result,) = await store.add_feedback(key, [Feedback(ids_in("b", tokens)[0], True, None)], STRICT, NOW)
    assert result == (STATUS.NEWER, None)
    heads = await store.add_predictions(key, [Block("b", record)], WINDOW, None)
    assert isinstance(heads, list)
    assert isinstance(heads[0], bytes)
    for refuse in (kind.format.decode_stored, kind.format.waiting):
        with pytest.raises(NewerVersionError):
            refuse(heads[0])
    assert await store.command("GET", keys.block(*key, "b")) == flagged
    kind.format.waiting(with_flags(flagged, 0))


@EACH_KIND
@pytest.mark.parametrize(("field", "value"), [("kind", 9), ("reward", 1.5), ("reward", -1.0)])
async def test_an_outcome_of_a_newer_version_is_not_answered(
    store: RedisStore, name: str, kind: Kind, field: str, value: float
) -> None:
    key, (record, tokens) = await new_model(store, name), kind.record(alone=False)
    named, feedback = keys.block(*key, "b"), [Feedback(own, True, None) for own in ids_in("b", tokens)]
    await store.command("SET", named, record)
    await store.add_feedback(key, feedback, STRICT, NOW)
    closed, offsets = await store.command("GET", named), block_offsets(record)
    begin, end = offsets.outcome(1), offsets.outcome(2)
    at, new = begin + OUTCOME.place(field), struct.pack("<d", value) if field == "reward" else bytes([int(value)])
    changed = closed[:at] + new + closed[at + len(new) :]
    head = offsets.prediction(1) + PREDICTION.place("token")
    check = check_bytes(changed[begin + CHECK.size : end] + changed[head : head + 8 + CHECK.size])
    await store.command("SET", named, changed[:begin] + check + changed[begin + CHECK.size :])
    again = await store.add_feedback(key, feedback, STRICT, NOW)
    assert [status for status, _ in again] == [STATUS.DUPLICATE, STATUS.NEWER, STATUS.DUPLICATE]


# --- records of extreme sizes: the store joins them, and every number is read to the bit


LABELS = 10_000
RNG = np.random.default_rng(5)


def dense(n: int, d: int) -> Contexts:
    return Contexts.dense(RNG.normal(size=(n, d)).astype(np.float32))


def sparse(*lengths: int) -> Contexts:
    indices = [k for length in lengths for k in range(length)]
    return Contexts.sparse(lengths, indices, RNG.normal(size=len(indices)))


def masks(n: int) -> OptionalFields:
    return OptionalFields(np.arange(LABELS) != np.full((n, 1), 3))


class Case(NamedTuple):
    """Predictions of extreme size, in one block."""

    form: AnswerCodec
    codec: ContextCodec
    contexts: Contexts
    answer: Callable[[int], Any]
    evidence_size: int = 0
    parts: OptionalFields = NO_OPTIONAL_FIELDS


CASES = {
    "many predictions": Case(label_codec(10), DenseCodec(1, "<f4"), dense(2_000, 1), lambda i: i % 10),
    "many slots": Case(label_codec(LABELS), DenseCodec(3), dense(500, 3), lambda i: i + 5, 0, masks(500)),
    "a long context": Case(label_codec(2), DenseCodec(100_000, "<f4"), dense(2, 100_000), lambda i: i),
    "no entries": Case(label_codec(2), SparseCodec(2**31 - 1), sparse(0, 0, 0), lambda i: i % 2),
    "many entries": Case(label_codec(2), SparseCodec(2**31 - 1), sparse(0, 50_000, 1), lambda i: i % 2),
    "a large set": Case(label_set_codec(LABELS), DenseCodec(2), dense(3, 2), lambda i: [i % 2] * LABELS),
    "a long ranking": Case(
        ranking_codec(LABELS), DenseCodec(2), dense(2, 2), lambda i: [*range(i, LABELS), *range(i)], LABELS
    ),
    "many costs": Case(
        label_codec(LABELS),
        DenseCodec(3),
        dense(40, 3),
        lambda i: i,
        1,
        OptionalFields(
            np.ones((40, 0), np.bool_), (), (), RNG.random((40, 2)), [np.ones(1_000, GIVEN_COSTS).tobytes(), b""] * 20
        ),
    ),
    "long parts": Case(
        label_codec(LABELS),
        SparseCodec(9),
        sparse(9, 0),
        lambda i: i,
        3,
        OptionalFields(np.ones((2, LABELS), np.bool_), [b"{}" * 40_000, b"{}"], [b"", b"\0" * 100_000]),
    ),
}


def made_of(case: Case) -> NewPredictions:
    n = case.contexts.n
    chances, evidence = np.linspace(1e-300, 1.0, n), RNG.normal(size=(n, case.evidence_size))
    return new_predictions(
        case.form,
        [case.answer(i) for i in range(n)],
        case.contexts,
        evidence,
        propensities=chances,
        residual_uniforms=chances / 2,
        predicted_at=NOW + np.linspace(0.0, 1.0, n),
        rounds_seen=2**53,
        changes_seen=2**32 - 1,
        parts=case.parts,
    )


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_records_of_extreme_sizes_survive(store: RedisStore, name: str, case: Case) -> None:
    n, form = case.contexts.n, RecordFormat(case.form, case.evidence_size, case.codec, has_actions=True)
    made, tokens = made_of(case), tokens_of([0, n], "secret")
    (record,) = form.encode_blocks(made, [0, n], tokens, [bytes(16)])
    key, rules = await new_model(store, name), STRICT._replace(accept_late=True)
    assert await store.add_predictions(key, [Block("b", record)], WINDOW, None) == [None]
    waiting = form.waiting(await store.command("GET", keys.block(*key, "b")))
    assert waiting is not None
    given = [Feedback(own, True, None) for own in ids_in("b", tokens)]
    for some in (given[: n // 2], given[n // 2 :]):
        await store.add_feedback(key, some, rules, NOW)
    rows = read_entries(form, (await store.read_tail(key, 0, 1_000_000)).entries, 0).rows
    assert rows is not None
    for table, contexts, parts in (waiting.rows, rows[0:3]):
        for column, expected in (
            ("output", made.outputs),
            ("propensity", made.propensities),
            ("residual_uniform", made.residual_uniforms),
            ("evidence", made.evidence),
            ("predicted_at", np.asarray(made.predicted_at)),
            ("token", np.array(tokens)),
        ):
            assert table[column].tobytes() == expected.tobytes(), column
        assert set(table["rounds_seen"].tolist()) == {made.rounds_seen}
        assert set(table["changes_seen"].tolist()) == {made.changes_seen}
        assert [each.tobytes() for each in contexts[:3]] == [each.tobytes() for each in case.contexts[:3]]
        assert list(parts.sent) == list(case.parts.sent or [b""] * n)
        assert list(parts.actions) == list(case.parts.actions or [b""] * n)
        assert parts.prices.tobytes() == case.parts.prices.tobytes()
        assert list(parts.costs) == list(case.parts.costs or [b""] * n)
        masked = case.parts.eligible if case.parts.eligible.shape[1] else np.ones((n, 0), np.bool_)
        assert parts.eligible.all() if masked.all() else parts.eligible.tobytes() == masked.tobytes()
    closed: bytes = await store.command("GET", keys.block(*key, "b"))
    assert form.waiting(closed) is None

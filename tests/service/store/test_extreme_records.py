"""The laws of records of extreme sizes: the store joins them, and every number is read to the bit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import Contexts
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
from service.store.records.new_predictions import NewPredictions
from service.store.records.optional_fields import NO_PARTS, Parts
from service.store.records.records import RecordFormat
from service.store.redis.redis_store import RedisStore
from service.store.values import Block, Feedback
from tests.service.store.record_kinds import new_model
from tests.service.store.samples import NEW, NOW, STRICT, WINDOW, ids_in

LABELS = 10_000
RNG = np.random.default_rng(5)


def dense(n: int, d: int) -> Contexts:
    """Return n contexts of d normal numbers in single precision."""
    return Contexts.dense(RNG.normal(size=(n, d)).astype(np.float32))


def sparse(*lengths: int) -> Contexts:
    """Return contexts with these numbers of entries."""
    indices = [k for length in lengths for k in range(length)]
    return Contexts.sparse(lengths, indices, RNG.normal(size=len(indices)))


def masks(n: int) -> Parts:
    """Return the eligible labels of n predictions: all but one."""
    return Parts(np.arange(LABELS) != np.full((n, 1), 3))


class Case(NamedTuple):
    """Predictions of extreme size, in one block."""

    form: AnswerCodec
    codec: ContextCodec
    contexts: Contexts
    answer: Callable[[int], Any]
    evidence_size: int = 0
    parts: Parts = NO_PARTS


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
    "long parts": Case(
        label_codec(LABELS),
        SparseCodec(9),
        sparse(9, 0),
        lambda i: i,
        3,
        Parts(np.ones((2, LABELS), np.bool_), [b"{}" * 40_000, b"{}"], [b"", b"\0" * 100_000]),
    ),
}


def made_of(case: Case) -> NewPredictions:
    """Return the predictions of a case."""
    n = case.contexts.n
    outputs = case.form.rows(np.array([case.answer(i) for i in range(n)]))
    evidence = RNG.normal(size=(n, case.evidence_size))
    chances, moments = np.linspace(1e-300, 1.0, n), NOW + np.linspace(0.0, 1.0, n)
    seen = (2**53, 2**32 - 1, NEW)
    return NewPredictions(
        outputs, chances, chances / 2, evidence, case.contexts, moments, NOW + WINDOW, *seen, case.parts
    )


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_records_of_extreme_sizes_survive(store: RedisStore, name: str, case: Case) -> None:
    """Predictions of one block become rounds with the same numbers, in two calls."""
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
        masked = case.parts.eligible if case.parts.eligible.shape[1] else np.ones((n, 0), np.bool_)
        assert parts.eligible.all() if masked.all() else parts.eligible.tobytes() == masked.tobytes()
    closed: bytes = await store.command("GET", keys.block(*key, "b"))
    assert form.waiting(closed) is None

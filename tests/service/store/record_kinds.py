"""Predictions of every kind of answer and context, with feedback on them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import Contexts
from service.prediction_id import tokens_of
from service.store import keys
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
from service.store.records.records import RecordFormat
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackResult, FeedbackRules, FeedbackStatus
from tests.service.store.samples import NEW, NOW, STRICT, WINDOW, ids_in


class Kind(NamedTuple):
    """Predictions of one kind."""

    form: AnswerCodec
    evidence_size: int
    codec: ContextCodec
    answers: list[Any]
    contexts: Contexts

    @property
    def format(self) -> RecordFormat:
        """The record format of the predictions' model."""
        return RecordFormat(self.form, self.evidence_size, self.codec)

    @property
    def rules(self) -> FeedbackRules:
        """The feedback rules of the predictions' model."""
        return STRICT


DENSE = Contexts.dense(np.linspace(-1.0, 1.0, 9).reshape(3, 3))
THIN = Contexts.sparse([2, 0, 1], [6, 0, 3], [0.5, -0.25, 1.0])
KINDS = {
    "dense": Kind(label_codec(4), 2, DenseCodec(3), [2, 0, 3], DENSE),
    "sparse": Kind(label_codec(4), 2, SparseCodec(7), [2, 0, 3], THIN),
    "float32": Kind(label_codec(4), 0, DenseCodec(4, "<f4"), [2, 0, 3], Contexts.dense(np.eye(3, 4) - 0.25)),
    "label-set": Kind(label_set_codec(4), 1, DenseCodec(3), [[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], DENSE),
    "ranking": Kind(ranking_codec(3), 1, DenseCodec(3), [[0, 2, 1], [0, 1, 2], [2, 1, 0]], DENSE),
}


def made_of(kind: Kind) -> NewPredictions:
    """Return three predictions of a kind."""
    n, outputs = 3, kind.form.rows(np.array(kind.answers))
    evidence = np.linspace(0.1, 0.9, n * kind.evidence_size).reshape(n, -1)
    thirds, quarters, seen = np.full(n, 1 / 3), np.full(n, 0.25), (7, 0, NEW)
    return NewPredictions(outputs, thirds, quarters, evidence, kind.contexts, NOW, NOW + WINDOW, *seen)


def record_of(kind: Kind, alone: bool) -> tuple[bytes, list[int]]:
    """Return a block of three predictions, or of the first alone, and its tokens."""
    bounds = [0, 1, 2, 3] if alone else [0, 3]
    tokens, made, fingerprints = tokens_of(bounds, "secret"), made_of(kind), [bytes(16)] * (3 if alone else 1)
    blocks = kind.format.encode_blocks(made, bounds, tokens, fingerprints)
    return blocks[0], tokens[:1] if alone else tokens


def with_each_byte_changed(record: bytes, mask: int) -> list[bytes]:
    """Return one copy of the record per byte, with that byte changed by XOR."""
    return [record[:i] + bytes([record[i] ^ mask]) + record[i + 1 :] for i in range(len(record))]


async def new_model(store: RedisStore, name: str) -> ModelKey:
    """Create a model without rounds."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    return key


async def judged(
    store: RedisStore, key: ModelKey, kind: Kind, records: Sequence[bytes], tokens: Sequence[int]
) -> list[list[FeedbackResult]]:
    """Store these blocks between two intact ones; return the results of one feedback call, by block and prediction."""
    whole, _ = record_of(kind, False)
    names = [f"b{i}" for i in range(len(records))]
    for name, record in zip(["before", *names, "after"], [whole, *records, whole], strict=True):
        await store.command("SET", keys.block(*key, name), record)
    about = tokens_of([0, 3], "secret")
    ids = [*ids_in("before", about), *(own for name in names for own in ids_in(name, tokens)), *ids_in("after", about)]
    results = await store.add_feedback(key, [Feedback(own, True, None) for own in ids], kind.rules, NOW)
    assert {result.status for result in [*results[:3], *results[-3:]]} == {FeedbackStatus.RECORDED}
    n = len(tokens)
    return [results[3 + i * n : 3 + (i + 1) * n] for i in range(len(records))]

"""The laws of the optional parts of rounds: eligible labels, JSON of contexts, actions; and earlier label counts."""

from typing import Any

import numpy as np
import pytest

from learners.base import BoolArray, Contexts
from service.errors import NewerVersionError, StoreCorruptError
from service.prediction_id import tokens_of
from service.store.records.codecs import ContextCodec, DenseCodec, SparseCodec, label_codec
from service.store.records.layout import HOLDOUT
from service.store.records.new_predictions import NewPredictions
from service.store.records.optional_fields import NO_PARTS, LogRows, Parts
from service.store.records.records import RecordFormat
from tests.service.store.samples import as_round, changed_round

CODECS = [pytest.param(DenseCodec(2), id="dense"), pytest.param(SparseCodec(9), id="sparse")]
EVERY = np.ones((3, 0), np.bool_)
MASK: BoolArray = (np.arange(3 * 11).reshape(3, 11) % 3 != 1) | (np.arange(11) == 2)
SENT, ACTIONS = (b'{"a":1}', b"", b"[" + b"1" * 500 + b"]"), (b"\0", b"x" * 9, b"")


def some_predictions(codec: ContextCodec, n_labels: int, evidence_size: int, **others: Any) -> NewPredictions:
    """Return three predictions of label 2, with contexts of different sizes where the codec allows them."""
    dense = codec.fixed_bytes is not None
    contexts = Contexts.dense(np.eye(3, 2)) if dense else Contexts.sparse([2, 0, 1], [8, 0, 3], [1 / 3, -2.0, 5e-324])
    outputs, half = label_codec(n_labels).rows(np.full(3, 2)), np.full(3, 0.5)
    evidence = np.arange(3.0 * evidence_size).reshape(3, -1)
    return NewPredictions(outputs, half, half / 2, evidence, contexts, 0.1, 0.2, 7, 3, **others)


def played(form: RecordFormat, predictions: NewPredictions) -> list[bytes]:
    """Return the rounds that wrong answers make of three predictions in one block."""
    (record,) = form.encode_blocks(predictions, [0, 3], tokens_of([0, 3], ""), [bytes(16)])
    return [as_round(record, i, (False, 0.3, i + 1)) for i in range(3)]


def log_rows(form: RecordFormat, predictions: NewPredictions) -> LogRows:
    """Return the log rows of three predictions."""
    return form.rows(played(form, predictions))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "parts", [NO_PARTS, Parts(MASK), Parts(EVERY, SENT), Parts(MASK, SENT), Parts(EVERY, SENT, ACTIONS)]
)
def test_parts_survive(codec: ContextCodec, parts: Parts) -> None:
    """Each combination of parts round-trips, and leaves contexts and evidence as they are."""
    form = RecordFormat(label_codec(11), 2, codec, has_actions=bool(parts.actions))
    predictions = some_predictions(codec, 11, 2, parts=parts)
    rows = log_rows(form, predictions)
    expected = parts.eligible if parts.eligible.shape[1] else EVERY
    assert (rows.parts.eligible.tolist(), rows.parts.eligible.shape) == (expected.tolist(), expected.shape)
    assert list(rows.parts.sent) == (list(parts.sent) or [b""] * 3)
    assert list(rows.parts.actions) == (list(parts.actions) or [b""] * 3)
    assert rows.contexts.values.tobytes() == predictions.contexts.values.tobytes()
    assert rows.table["evidence"].tolist() == predictions.evidence.tolist()


def test_a_holdout_is_marked() -> None:
    """Only the predictions of a holdout have its flag."""
    form, codec = RecordFormat(label_codec(4), 1, DenseCodec(2)), DenseCodec(2)
    rows = log_rows(form, some_predictions(codec, 4, 1, holdout=np.array([False, True, False])))
    assert ((rows.table["flags"] & HOLDOUT) > 0).tolist() == [False, True, False]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("parts", [NO_PARTS, Parts(MASK[:, :4])])
def test_labels_added_later_were_not_eligible(codec: ContextCodec, parts: Parts) -> None:
    """A round of fewer labels gets evidence of zero for the others, which it could not answer."""
    before, after = (RecordFormat(label_codec(n), n, codec) for n in (4, 9))
    old, new = played(before, some_predictions(codec, 4, 4, parts=parts)), some_predictions(codec, 9, 9)
    rows = after.rows([*old, *(changed_round(one, label_codec(9), round=4) for one in played(after, new))])
    assert rows.table["labels"].tolist() == [4] * 3 + [9] * 3
    assert not rows.parts.eligible[:3, 4:].any()
    assert rows.parts.eligible[3:].all()
    assert (
        rows.parts.eligible[:3, :4].tolist() == (parts.eligible if parts is not NO_PARTS else np.ones((3, 4))).tolist()
    )
    assert rows.table["evidence"][:3, :4].tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert not rows.table["evidence"][:3, 4:].any()
    with pytest.raises(StoreCorruptError):
        before.rows(played(after, new))


def test_a_label_outside_its_mask_is_corrupt() -> None:
    """Compiled folds rely on the answer being eligible."""
    form, mask = (
        RecordFormat(label_codec(4), 0, DenseCodec(2)),
        np.array([[True] * 4, [True] * 4, [True, True, False, True]]),
    )
    with pytest.raises(StoreCorruptError, match="eligible"):
        log_rows(form, some_predictions(DenseCodec(2), 4, 0, parts=Parts(mask)))


def test_actions_need_a_model_with_actions() -> None:
    """A model with labels refuses rounds with actions, which it would ignore."""
    form = RecordFormat(label_codec(4), 0, DenseCodec(2))
    with pytest.raises(NewerVersionError):
        log_rows(form, some_predictions(DenseCodec(2), 4, 0, parts=Parts(EVERY, (), ACTIONS)))

"""The laws of context codecs: indices and values round-trip to the bit, and wrong ones are refused."""

import math

import numpy as np
import pytest

from learners.base import Contexts
from service.errors import StoreCorruptError
from service.prediction_id import tokens_of
from service.store.records.codecs import SparseCodec, label_codec
from service.store.records.new_predictions import NewPredictions
from service.store.records.records import RecordFormat
from tests.service.store.record_samples import encoded_answer
from tests.service.store.samples import as_round, changed_round


def sparse_round(shape: RecordFormat, indices: list[int], values: list[float]) -> bytes:
    """Return a round with this context."""
    outputs, third, contexts = label_codec(4).rows(np.array([3])), np.full(1, 1 / 3), Contexts.sparse
    made = NewPredictions(
        outputs, third, third, np.ones((1, 2)), contexts([len(indices)], indices, values), 0.1, 0.1, 1
    )
    (record,) = shape.encode_blocks(made, [0, 1], tokens_of([0, 1], ""), [bytes(16)])
    return as_round(record, 0, (True, 0.2, 1), encoded_answer(label_codec(4), 3))


def test_sparse_predictions_in_one_block_survive() -> None:
    """Sparse predictions of different lengths in one block keep their entries."""
    shape = RecordFormat(label_codec(4), 0, SparseCodec(7))
    contexts = Contexts.sparse([2, 0, 1], [6, 0, 3], [1 / 3, -math.pi, 5e-324])
    outputs, ones = label_codec(4).rows(np.array([3, 1, 2])), np.ones(3)
    made = NewPredictions(outputs, ones, ones / 2, np.empty((3, 0)), contexts, 0.1, 0.1, 1)
    (record,) = shape.encode_blocks(made, [0, 3], tokens_of([0, 3], ""), [bytes(16)])
    rounds = shape.decode_rounds([b"".join(as_round(record, i, (False, 0.2, i + 1)) for i in (2, 0, 1))])
    assert rounds.labels.tolist() == [2, 3, 1]
    assert rounds.contexts.starts.tolist() == [0, 1, 3, 3]
    assert rounds.contexts.values.tolist() == [5e-324, 1 / 3, -math.pi]


def test_sparse_contexts_survive_to_the_bit() -> None:
    """Indices and values of any length round-trip, including an empty context."""
    shape = RecordFormat(label_codec(4), 2, SparseCodec(7))
    rows: list[tuple[list[int], list[float]]] = [([6, 0], [1 / 3, -math.pi]), ([], []), ([3], [5e-324])]
    contexts = shape.decode_rounds([sparse_round(shape, *row) for row in rows]).contexts
    assert contexts.starts.tolist() == [0, 2, 2, 3]
    assert contexts.indices.tolist() == [6, 0, 3]
    assert contexts.values.tolist() == [1 / 3, -math.pi, 5e-324]
    assert shape.round_bytes == len(sparse_round(shape, [], []))


@pytest.mark.parametrize(
    ("index", "value", "cut", "reason"),
    [(-1, 1.0, 0, "out of range"), (7, 1.0, 0, "out of range"), (3, math.nan, 0, "impossible"), (3, 1.0, 1, "damaged")],
)
def test_a_wrong_sparse_context_is_corrupt(index: int, value: float, cut: int, reason: str) -> None:
    """An index outside the features, a NaN, and a truncated entry are refused."""
    shape = RecordFormat(label_codec(4), 2, SparseCodec(7))
    record = sparse_round(shape, [0, index], [1.0, value])
    if cut:
        shorter = (len(record) - cut).to_bytes(4, "little") + record[4 : len(record) - cut]
        record = changed_round(shorter, label_codec(4), context_bytes=24 - cut)
    with pytest.raises(StoreCorruptError, match=reason):
        shape.decode_rounds([sparse_round(shape, [0], [1.0]), record])

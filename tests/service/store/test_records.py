"""The laws of blocks of predictions: they round-trip, and damage is found or harmless."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.base import Contexts
from service.errors import NewerVersionError, StoreCorruptError, StoreError
from service.prediction_id import tokens_of
from service.store.records.codecs import ContextCodec, DenseCodec, SparseCodec, label_codec
from service.store.records.layout import VERSION
from service.store.records.new_predictions import BLOCK_BYTES, NewPredictions
from service.store.records.outcomes import decode_outcomes
from service.store.records.records import RecordFormat
from tests.service.store.record_samples import (
    COUNTS,
    FLOATS,
    LAWS,
    UNKNOWN,
    Sample,
    as_rounds,
    encoded_answer,
    plain_sample,
    samples,
)
from tests.service.store.samples import block_offsets, packed_outcome, without_bodies


@LAWS
@given(samples())
def test_the_stored_predictions_of_a_block_survive(sample: Sample) -> None:
    """The answers and the facts stored with them round-trip, with and without the bodies."""
    for record, (start, stop), fingerprint in zip(
        sample.encoded(), pairwise(sample.bounds), sample.fingerprints, strict=True
    ):
        for stored in (record, without_bodies(record)):
            kept = sample.format.decode_stored(stored)
            assert kept[:3] == (fingerprint, sample.made.expires_at, sample.made.rounds_seen)
            assert kept.propensities.tolist() == sample.made.propensities[start:stop].tolist()
            assert kept.outputs.tolist() == list(sample.answers[start:stop])


@pytest.mark.parametrize("answer", [-1, 4])
def test_an_answer_that_the_model_could_not_give_is_corrupt(answer: int) -> None:
    """An answer outside the model's labels is refused, so that no client receives an impossible or a wrong label."""
    numbers = np.ones((1, 2))
    shape = RecordFormat(label_codec(4), 0, DenseCodec(2))
    (record,) = plain_sample(label_codec(4), shape, answer, numbers, np.empty((1, 0))).encoded()
    with pytest.raises(StoreCorruptError, match="impossible output"):
        shape.decode_stored(record)


@pytest.mark.parametrize(("sparse", "n", "expected"), [(False, 1, 1), (False, 40, 1), (False, 600, 5), (True, 400, 3)])
def test_blocks_are_not_too_large(sparse: bool, n: int, expected: int) -> None:
    """Predictions share blocks up to the size limit, and blocks have nearly equal sizes."""
    codec: ContextCodec = SparseCodec(3) if sparse else DenseCodec(3)
    shape, numbers = RecordFormat(label_codec(4), 2, codec), np.ones((n, 3))
    contexts = Contexts.sparse([1] * n, [2] * n, numbers[:, 0]) if sparse else Contexts.dense(numbers)
    bounds = shape.bounds(contexts)
    made = NewPredictions(
        label_codec(4).rows(np.ones(n, np.int64)), numbers[:, 0], numbers[:, 0], numbers[:, :2], contexts, 0, 1, 0
    )
    sizes = [
        len(record)
        for record in shape.encode_blocks(made, bounds, tokens_of(bounds, ""), [bytes(16)] * (len(bounds) - 1))
    ]
    assert len(sizes) == expected
    assert max(sizes) <= BLOCK_BYTES + 60
    assert max(np.diff(bounds)) - min(np.diff(bounds)) <= 1


@LAWS
@given(samples(), st.booleans(), FLOATS, COUNTS)
def test_an_outcome_survives(sample: Sample, correct: bool, feedback_at: float, number: int) -> None:
    """Packed outcomes decode to the same values; a truth of -1 means unknown."""
    truth = encoded_answer(sample.form, sample.truth)
    packed = packed_outcome((correct, feedback_at, number), truth, b"")
    expected = [(correct, feedback_at, number, None if sample.truth == UNKNOWN else truth)] * 3
    assert decode_outcomes(packed * 3, 3) == expected


@LAWS
@given(samples(), st.data())
def test_no_damage_is_read(sample: Sample, data: st.DataObject) -> None:
    """With any byte of a block's head or of a round changed, decoding raises a StoreError."""
    record, played = sample.encoded()[0], as_rounds(sample)[0]
    for whole, end, decode in (
        (record, block_offsets(record).open, sample.format.decode_stored),
        (played, len(played), lambda damaged: sample.format.decode_rounds([damaged])),
    ):
        at, byte = data.draw(st.integers(0, end - 1)), data.draw(st.integers(1, 255))
        with pytest.raises(StoreError):
            decode(whole[:at] + bytes([whole[at] ^ byte]) + whole[at + 1 :])


@LAWS
@given(st.binary(max_size=200))
def test_noise_is_found_or_harmless(noise: bytes) -> None:
    """Decoding arbitrary bytes succeeds or raises a StoreError, never another error."""
    shape = RecordFormat(label_codec(3), 1, DenseCodec(2))
    thin = RecordFormat(label_codec(3), 1, SparseCodec(2))
    for decode in (
        shape.decode_stored,
        lambda data: decode_outcomes(data, 3),
        lambda data: decode_outcomes(data, 0),
        lambda data: shape.decode_stored(bytes([VERSION]) + data),
        lambda data: shape.waiting(bytes([VERSION]) + data),
        lambda data: shape.decode_rounds([data]),
        lambda data: thin.decode_rounds([data, data]),
    ):
        try:
            decode(noise)
        except StoreError:
            continue


@LAWS
@given(samples(), st.integers(0, 255).filter(lambda version: version != VERSION))
def test_another_format_is_refused(sample: Sample, version: int) -> None:
    """An unknown version is corrupt if it is below the first one, and newer otherwise."""
    expected = StoreCorruptError if version < VERSION else NewerVersionError
    with pytest.raises(expected, match="format"):
        sample.format.decode_stored(bytes([version]) + sample.encoded()[0][1:])

"""The laws of the packed records: what goes in comes out, and damage is noticed or harmless."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.base import Contexts, FloatArray
from service.errors import NewerVersionError, StoreCorruptError, StoreError
from service.store.outcomes import _OUTCOME, decode_outcomes
from service.store.records.answer_codec import AnswerCodec, label_codec, label_set_codec, ranking_codec
from service.store.records.context_codec import DenseCodec, SparseCodec
from service.store.records.records import BLOCK_BYTES, FORMAT, NewPredictions, RecordFormat
from service.store.tokens import tokens_of
from tests.service.store.samples import as_round, without_bodies

LAWS = settings(deadline=None, derandomize=True, max_examples=100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.floats(0.0, 2.5e11)
COUNTS = st.integers(0, 2**53)
FINGERPRINTS = st.binary(min_size=16, max_size=16)
LABELS = 2**31 - 1
FORMS: list[tuple[AnswerCodec, st.SearchStrategy[Any]]] = [
    (label_codec(LABELS), st.integers(0, LABELS - 1)),
    (label_set_codec(3), st.lists(st.integers(0, 1), min_size=3, max_size=3)),
    (ranking_codec(4), st.permutations(range(4))),
]
UNKNOWN = -1


def encoded_answer(form: AnswerCodec, answer: Any) -> bytes:
    """One answer, or -1 for an unknown truth, as it is stored."""
    rows = np.full((1, *form.dtype.shape), answer, dtype=np.int64)
    return form.encode(rows)[0]


class Sample(NamedTuple):
    """Predictions as a session has them, with the format of their model."""

    form: AnswerCodec
    format: RecordFormat
    answers: list[Any]
    truth: Any  # an answer, or UNKNOWN
    made: NewPredictions
    bounds: list[int]
    fingerprints: list[bytes]

    def encoded(self) -> list[bytes]:
        """The records of the blocks."""
        return self.format.encode_blocks(self.made, self.bounds, tokens_of(self.bounds, "secret"), self.fingerprints)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Up to four predictions of any shape and kind of answer, with any finite numbers, in any blocks."""
    n, E, d = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    numbers = np.array(draw(st.lists(FLOATS, min_size=n * (d + E), max_size=n * (d + E)))).reshape(n, d + E)
    form, answer = draw(st.sampled_from(FORMS))
    answers, truth = draw(st.lists(answer, min_size=n, max_size=n)), draw(answer | st.just(UNKNOWN))
    chance = st.floats(0.0, 1.0, exclude_min=not form.vanishing)
    probabilities, residual_uniforms = (
        np.array(draw(st.lists(chance, min_size=n, max_size=n))),
        np.linspace(0.0, 0.9, n),
    )
    contexts, (now, expires_at), seen = Contexts.dense(numbers[:, :d]), draw(st.tuples(MOMENTS, MOMENTS)), draw(COUNTS)
    made = NewPredictions(
        form.rows(np.array(answers)), probabilities, residual_uniforms, numbers[:, d:], contexts, now, expires_at, seen
    )
    bounds = [0, *sorted(draw(st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set()))), n]
    fingerprints = draw(st.lists(FINGERPRINTS, min_size=len(bounds) - 1, max_size=len(bounds) - 1))
    return Sample(form, RecordFormat(form, E, DenseCodec(d)), answers, truth, made, bounds, fingerprints)


def plain_sample(
    form: AnswerCodec, shape: RecordFormat, answer: Any, numbers: FloatArray, evidence: FloatArray
) -> Sample:
    """Predictions of one answer, a third likely, all of them right, in one block."""
    n = len(numbers)
    outputs, residual_uniforms = form.rows(np.array([answer] * n)), np.linspace(0.0, 0.9, n)
    made = NewPredictions(outputs, np.full(n, 1 / 3), residual_uniforms, evidence, Contexts.dense(numbers), 0.1, 0.1, 1)
    return Sample(form, shape, [answer] * n, answer, made, [0, n], [bytes(16)])


def as_rounds(sample: Sample) -> list[bytes]:
    """What add_feedback.lua makes of each prediction."""
    truth, encoded, rounds = encoded_answer(sample.form, sample.truth), sample.encoded(), list[bytes]()
    for record, (start, stop) in zip(encoded, pairwise(sample.bounds), strict=True):
        for i in range(stop - start):
            correct = bool(sample.truth == sample.answers[len(rounds)])
            rounds.append(as_round(record, i, (correct, sample.made.predicted_at, len(rounds) + 1), truth))
    return rounds


@LAWS
@given(samples())
def test_what_is_kept_of_a_single_prediction_survives(sample: Sample) -> None:
    """The answer of each that has its block to itself, and what was given with it, with and without its body."""
    for record, (start, stop), fingerprint in zip(
        sample.encoded(), pairwise(sample.bounds), sample.fingerprints, strict=True
    ):
        for stored in (record, without_bodies(record)):
            if stop - start > 1 and fingerprint != bytes(16):  # the service names blocks of several
                with pytest.raises(StoreCorruptError, match="of another model"):
                    sample.format.decode_stored(stored)
                continue
            kept = sample.format.decode_stored(stored)
            if stop - start > 1:
                assert kept is None
                continue
            assert kept is not None
            assert kept[:3] == (fingerprint, sample.made.expires_at, sample.made.rounds_seen)
            assert kept.propensities.tolist() == sample.made.propensities[start:stop].tolist()
            assert kept.outputs.tolist() == [sample.answers[start]]


@pytest.mark.parametrize("answer", [-1, 4])
def test_an_answer_that_the_model_could_not_give_is_corrupt(answer: int) -> None:
    """A client must not be told a label that is none, nor another one."""
    numbers = np.ones((1, 2))
    shape = RecordFormat(label_codec(4), 0, DenseCodec(2))
    (record,) = plain_sample(label_codec(4), shape, answer, numbers, np.empty((1, 0))).encoded()
    with pytest.raises(StoreCorruptError, match="impossible output"):
        shape.decode_stored(record)


@pytest.mark.parametrize(("sparse", "n", "expected"), [(False, 1, 1), (False, 40, 1), (False, 600, 5), (True, 400, 3)])
def test_blocks_are_not_too_large(sparse: bool, n: int, expected: int) -> None:
    """Predictions are kept together as far as a block is no larger than it may be, in blocks of nearly one size."""
    shape, numbers = RecordFormat(label_codec(4), 2, SparseCodec(3) if sparse else DenseCodec(3)), np.ones((n, 3))
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
    assert max(sizes) <= BLOCK_BYTES + 45
    assert max(np.diff(bounds)) - min(np.diff(bounds)) <= 1


@LAWS
@given(samples())
def test_rounds_survive_to_the_bit(sample: Sample) -> None:
    """Answers, propensities, contexts, evidence and outcome come out of a round as they went into it."""
    rounds = sample.format.decode_rounds(as_rounds(sample))
    assert rounds.contexts.values.tobytes() == sample.made.contexts.values.tobytes()
    assert rounds.evidence.tobytes() == sample.made.evidence.tobytes()
    assert rounds.residual_uniforms.tolist() == np.linspace(0.0, 0.9, rounds.n).tolist()
    assert rounds.evidence.shape == sample.made.evidence.shape
    assert rounds.labels.tolist() == sample.answers
    assert rounds.propensities.tolist() == sample.made.propensities.tolist()
    assert rounds.correct.tolist() == [answer == sample.truth for answer in sample.answers]
    truths = np.full((rounds.n, *sample.form.dtype.shape), sample.truth)
    assert rounds.true_labels.tolist() == truths.tolist()


@LAWS
@given(samples())
def test_the_table_tells_when_and_from_where(sample: Sample) -> None:
    """Each row of the table has its number, the rounds its prediction had seen, and the moments of both."""
    table = sample.format.table(as_rounds(sample))
    n = len(sample.answers)
    assert table["round"].tolist() == list(range(1, n + 1))
    assert table["rounds_seen"].tolist() == [sample.made.rounds_seen] * n
    assert table["predicted_at"].tolist() == table["feedback_at"].tolist() == [sample.made.predicted_at] * n
    assert table["token"].tolist() == tokens_of(sample.bounds, "secret").tolist()
    assert {len(record) for record in as_rounds(sample)} == {sample.format.round_bytes}
    apply_to_valid = sample.format.table([b"".join(as_rounds(sample))])
    assert apply_to_valid.tobytes() == table.tobytes()


@LAWS
@given(samples())
def test_decoded_rounds_are_in_arrays_of_their_own(sample: Sample) -> None:
    """A learner may write to what was decoded, and one decoding does not change another."""
    records = as_rounds(sample)
    first, second = sample.format.decode_rounds(records), sample.format.decode_rounds(records)
    for mine, other in zip([*first[1:], first.contexts.values], [*second[1:], second.contexts.values], strict=True):
        assert isinstance(mine, np.ndarray)
        assert isinstance(other, np.ndarray)
        before = other.tobytes()
        mine[...] = 1
        assert other.tobytes() == before


@LAWS
@given(samples(), st.booleans(), FLOATS, COUNTS)
def test_an_outcome_survives(sample: Sample, correct: bool, feedback_at: float, number: int) -> None:
    """The outcome in a feedback's reply is the one that was packed; numbers of -1 stand for a truth not known."""
    truth = encoded_answer(sample.form, sample.truth)
    packed = _OUTCOME.pack(correct, feedback_at, number) + truth
    assert (
        decode_outcomes(packed * 3, 3)
        == [(correct, feedback_at, number, None if sample.truth == UNKNOWN else truth)] * 3
    )


@LAWS
@given(samples(), st.data())
def test_a_record_of_the_wrong_length_is_corrupt(sample: Sample, data: st.DataObject) -> None:
    """A round that was cut or prolonged is refused, wherever it stands among others."""
    records = as_rounds(sample)
    at = data.draw(st.integers(0, len(records) - 1))
    length = data.draw(st.integers(1, len(records[at]) + 9).filter(lambda n: n != len(records[at])))
    records[at] = (records[at] + bytes(9))[:length]
    with pytest.raises(StoreCorruptError):
        sample.format.decode_rounds(records)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_round_that_lies_about_its_length_is_corrupt(sparse: bool) -> None:
    """Also where what follows would be read as if nothing were wrong."""
    shape, numbers = RecordFormat(label_codec(4), 0, SparseCodec(2) if sparse else DenseCodec(2)), np.ones((2, 2))
    contexts = Contexts.sparse([2, 2], [0, 1, 0, 1], numbers.reshape(-1)) if sparse else Contexts.dense(numbers)
    made = plain_sample(label_codec(4), shape, 3, numbers, np.empty((2, 0))).made._replace(contexts=contexts)
    (record,) = shape.encode_blocks(made, [0, 2], tokens_of([0, 2], ""), [bytes(16)])
    rounds = [as_round(record, i, (False, 0.1, i + 1)) for i in range(2)]
    for length in (0, 3, len(rounds[0]) - 1, len(rounds[0]) + 1, 2 * len(rounds[0]), 2**32 - 1):
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([length.to_bytes(4, "little") + rounds[0][4:] + rounds[1]])
    for length in (4, 10, shape.round_bytes - 1):  # cut short, and the truth is told of it
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([length.to_bytes(4, "little") + rounds[0][4:length]])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("output", -1),
        ("output", 4),
        ("output", 2**31 - 1),
        ("truth", -2),
        ("truth", 4),
        ("propensity", 0.0),
        ("propensity", 1.001),
        ("propensity", math.nan),
        ("residual_uniform", -0.1),
        ("residual_uniform", 1.0),
        ("residual_uniform", math.nan),
        ("context", math.inf),
        ("evidence", math.nan),
    ],
)
def test_impossible_numbers_are_corrupt(column: str, value: float) -> None:
    """A number that would lead a compiled fold astray is refused: labels are its indices."""
    numbers = np.ones((2, 2))
    shape = RecordFormat(label_codec(4), 2, DenseCodec(2))
    records = as_rounds(plain_sample(label_codec(4), shape, 3, numbers, numbers))
    table = shape.table(records).copy()
    shape.decode_rounds(records)
    table[column][1] = value
    with pytest.raises(StoreCorruptError, match="impossible"):
        shape.decode_rounds([table.tobytes()])


@pytest.mark.parametrize("form", [label_set_codec(3), ranking_codec(3)], ids=["set", "ranking"])
def test_only_a_vanishing_propensity_may_be_zero(form: AnswerCodec) -> None:
    """Of sets and rankings, whose propensities may be too small for a number, 0 is possible and less is not."""
    shape, numbers = RecordFormat(form, 1, DenseCodec(1)), np.ones((1, 1))
    answer = [1, 0, 2] if form.dtype.base == np.int32 else [1, 0, 1]
    table = shape.table(as_rounds(plain_sample(form, shape, answer, numbers, numbers))).copy()
    for propensity, possible in ((0.0, True), (-5e-324, False), (-0.1, False)):
        table["propensity"] = propensity
        damaged = [table.tobytes()]
        if possible:
            assert shape.decode_rounds(damaged).propensities.tolist() == [propensity]
        else:
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds(damaged)


@pytest.mark.parametrize("column", ["output", "truth"])
@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        (label_set_codec(3), [0, 2, 1]),
        (label_set_codec(3), [-1, -1, 1]),
        (ranking_codec(3), [0, 1, 1]),
        (ranking_codec(3), [0, 1, 3]),
        (ranking_codec(3), [-1, -1, 0]),
    ],
)
def test_impossible_rows_are_corrupt(form: AnswerCodec, wrong: list[int], column: str) -> None:
    """A row that is no set or ranking is refused, as an answer and as a truth; unknown may be a whole truth only."""
    shape, numbers = RecordFormat(form, 1, DenseCodec(1)), np.ones((2, 1))
    sample = plain_sample(form, shape, [0, 1, 2] if form.dtype.base == np.int32 else [0, 1, 1], numbers, numbers)
    records = as_rounds(sample)
    for row, refused in ((wrong, True), ([-1, -1, -1], column == "output")):
        table = shape.table(records).copy()
        table[column][1] = row
        table["correct"][1] = 0
        damaged = [table.tobytes()]
        if refused:
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds(damaged)
        else:
            assert shape.decode_rounds(damaged).true_labels[1].tolist() == row


@LAWS
@given(samples(), st.data())
def test_damage_is_noticed_or_harmless(sample: Sample, data: st.DataObject) -> None:
    """With any byte of a block, an outcome or a round changed, decoding answers or raises a StoreError."""
    played = as_rounds(sample)[0]
    decoders: list[tuple[Callable[[bytes], object], bytes]] = [
        (sample.format.decode_stored, without_bodies(sample.encoded()[0])),
        (lambda damaged: decode_outcomes(damaged, 1), played[4 : 4 + _OUTCOME.size + sample.form.dtype.itemsize]),
        (lambda damaged: sample.format.decode_rounds([damaged]), played),
    ]
    for decode, whole in decoders:
        at, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
        try:
            decode(whole[:at] + bytes([byte]) + whole[at + 1 :])
        except StoreError:
            continue


@LAWS
@given(st.binary(max_size=200))
def test_noise_is_noticed_or_harmless(noise: bytes) -> None:
    """Any bytes at all are decoded or refused with a StoreError, never with anything else."""
    shape, thin = RecordFormat(label_codec(3), 1, DenseCodec(2)), RecordFormat(label_codec(3), 1, SparseCodec(2))
    for decode in (
        shape.decode_stored,
        lambda data: decode_outcomes(data, 3),
        lambda data: decode_outcomes(data, 0),
        lambda data: shape.decode_rounds([data]),
        lambda data: thin.decode_rounds([data, data]),
    ):
        try:
            decode(noise)
        except StoreError:
            continue


@LAWS
@given(samples(), st.integers(0, 255).filter(lambda version: version != FORMAT))
def test_another_format_is_refused(sample: Sample, version: int) -> None:
    """A block that a later version wrote is not taken for one of ours."""
    expected = StoreCorruptError if version < FORMAT else NewerVersionError
    with pytest.raises(expected, match="format"):
        sample.format.decode_stored(bytes([version]) + sample.encoded()[0][1:])


def test_nothing_is_lost_to_rounding() -> None:
    """Numbers that single precision would change survive: a third, the smallest and the largest."""
    numbers = np.array([[1 / 3, 5e-324, 1.7976931348623157e308, -math.pi]])
    sample = plain_sample(label_codec(2), RecordFormat(label_codec(2), 0, DenseCodec(4)), 0, numbers, np.empty((1, 0)))
    assert sample.format.decode_rounds(as_rounds(sample)).contexts.values.tolist() == numbers[0].tolist()


# --- sparse contexts


def sparse_round(shape: RecordFormat, indices: list[int], values: list[float]) -> bytes:
    """A round whose context has these numbers."""
    outputs, third, contexts = label_codec(4).rows(np.array([3])), np.full(1, 1 / 3), Contexts.sparse
    made = NewPredictions(
        outputs, third, third, np.ones((1, 2)), contexts([len(indices)], indices, values), 0.1, 0.1, 1
    )
    (record,) = shape.encode_blocks(made, [0, 1], tokens_of([0, 1], ""), [bytes(16)])
    return as_round(record, 0, (True, 0.2, 1), encoded_answer(label_codec(4), 3))


def test_sparse_predictions_in_one_block_survive() -> None:
    """Each has its own entries, though their lengths differ."""
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
    """Indices and numbers of rounds of any lengths come out as they went in; none at all is a context too."""
    shape = RecordFormat(label_codec(4), 2, SparseCodec(7))
    rows: list[tuple[list[int], list[float]]] = [([6, 0], [1 / 3, -math.pi]), ([], []), ([3], [5e-324])]
    contexts = shape.decode_rounds([sparse_round(shape, *row) for row in rows]).contexts
    assert contexts.starts.tolist() == [0, 2, 2, 3]
    assert contexts.indices.tolist() == [6, 0, 3]
    assert contexts.values.tolist() == [1 / 3, -math.pi, 5e-324]
    assert shape.round_bytes == len(sparse_round(shape, [], []))


@pytest.mark.parametrize(
    ("index", "value", "cut", "reason"),
    [(-1, 1.0, 0, "out of range"), (7, 1.0, 0, "out of range"), (3, math.nan, 0, "impossible"), (3, 1.0, 1, "broken")],
)
def test_a_wrong_sparse_context_is_corrupt(index: int, value: float, cut: int, reason: str) -> None:
    """An index that would lead a compiled fold astray, a number that is none, an entry cut short."""
    shape = RecordFormat(label_codec(4), 2, SparseCodec(7))
    record = sparse_round(shape, [0, index], [1.0, value])
    record = (len(record) - cut).to_bytes(4, "little") + record[4 : len(record) - cut]
    with pytest.raises(StoreCorruptError, match=reason):
        shape.decode_rounds([sparse_round(shape, [0], [1.0]), record])

"""The laws of the packed records: what goes in comes out, and damage is noticed or harmless."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.base import Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.outputs import OutputForm, label_form, label_set_form, ranking_form
from service.store.records import _OUTCOME, FORMAT, Head, RecordFormat, decode_head, decode_outcome

LAWS = settings(deadline=None, derandomize=True, max_examples=100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**53)
LABELS = 2**31 - 1
FORMS: list[tuple[OutputForm, st.SearchStrategy[Any]]] = [
    (label_form(LABELS), st.integers(0, LABELS - 1)),
    (label_set_form(3), st.lists(st.integers(0, 1), min_size=3, max_size=3)),
    (ranking_form(4), st.permutations(range(4))),
]
UNKNOWN = -1


def encoded_answer(form: OutputForm, answer: Any) -> bytes:
    """One answer, or -1 for an unknown truth, as it is stored."""
    rows = np.full((1, *form.dtype.shape), answer, dtype=np.int64)
    return form.encode(rows)[0]


class Sample(NamedTuple):
    """Predictions as a desk has them, with the format of their model."""

    form: OutputForm
    format: RecordFormat
    answers: list[Any]
    truth: Any  # an answer, or UNKNOWN
    heads: list[Head]
    contexts: FloatArray
    evidence: FloatArray
    now: float

    def encoded(self) -> list[bytes]:
        """The records of the predictions."""
        return self.format.encode_predictions(
            self.heads, Contexts.dense(self.contexts), self.evidence, np.linspace(0.0, 0.9, len(self.heads)), self.now
        )


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Up to four predictions of any shape and kind of answer, with any finite numbers."""
    n, E, d = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    numbers = np.array(draw(st.lists(FLOATS, min_size=n * (d + E), max_size=n * (d + E)))).reshape(n, d + E)
    form, answer = draw(st.sampled_from(FORMS))
    answers, truth = draw(st.lists(answer, min_size=n, max_size=n)), draw(answer | st.just(UNKNOWN))
    chances = st.floats(0.0, 1.0, exclude_min=not form.vanishing)
    fixed = st.tuples(st.binary(min_size=16, max_size=16), FLOATS, COUNTS, chances)
    heads = [Head(*draw(fixed), encoded_answer(form, each)) for each in answers]
    shape = RecordFormat(form, E, d)
    return Sample(form, shape, answers, truth, heads, numbers[:, :d], numbers[:, d:], draw(FLOATS))


def plain_sample(
    form: OutputForm, shape: RecordFormat, answer: Any, numbers: FloatArray, evidence: FloatArray
) -> Sample:
    """Predictions of one answer, a third likely, all of them right."""
    heads = [Head(bytes(16), 0.1, 1, 1 / 3, encoded_answer(form, answer))] * len(numbers)
    return Sample(form, shape, [answer] * len(numbers), answer, heads, numbers, evidence, 0.1)


def as_rounds(sample: Sample, correct: bool = True) -> list[bytes]:
    """What add_feedback.lua makes of the records: the outcome, then the body."""
    truth, size = encoded_answer(sample.form, sample.truth), sample.format.head_bytes
    outcomes = [_OUTCOME.pack(correct, sample.now, number + 1) + truth for number in range(len(sample.heads))]
    return [outcome + record[size:] for outcome, record in zip(outcomes, sample.encoded(), strict=True)]


@LAWS
@given(samples())
def test_a_head_survives(sample: Sample) -> None:
    """The head of each encoded prediction is the one that was given."""
    assert [decode_head(record) for record in sample.encoded()] == sample.heads


@LAWS
@given(samples(), st.booleans())
def test_rounds_survive_to_the_bit(sample: Sample, correct: bool) -> None:
    """Answers, propensities, contexts, evidence and outcome come out of a round as they went into it."""
    rounds = sample.format.decode_rounds(as_rounds(sample, correct))
    assert rounds.contexts.values.tobytes() == sample.contexts.tobytes()
    assert rounds.evidence.tobytes() == sample.evidence.tobytes()
    assert rounds.leftovers.tolist() == np.linspace(0.0, 0.9, rounds.n).tolist()
    assert rounds.evidence.shape == sample.evidence.shape
    assert rounds.labels.tolist() == sample.answers
    assert rounds.propensities.tolist() == [head.propensity for head in sample.heads]
    assert rounds.correct.tolist() == [correct] * rounds.n
    truths = np.full((rounds.n, *sample.form.dtype.shape), sample.truth)
    assert rounds.true_labels.tolist() == truths.tolist()


@LAWS
@given(samples())
def test_the_table_tells_when_and_from_where(sample: Sample) -> None:
    """Each row of the table has its number, the rounds its prediction had seen, and the moments of both."""
    table = sample.format.table(as_rounds(sample))
    assert table["round"].tolist() == list(range(1, len(sample.heads) + 1))
    assert table["rounds_seen"].tolist() == [head.rounds_seen for head in sample.heads]
    assert table["predicted_at"].tolist() == table["feedback_at"].tolist() == [sample.now] * len(table)
    assert sample.format.round_bytes == len(as_rounds(sample)[0])


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
    assert decode_outcome(packed) == (correct, feedback_at, number, None if sample.truth == UNKNOWN else truth)


@LAWS
@given(samples(), st.data())
def test_a_record_of_the_wrong_length_is_corrupt(sample: Sample, data: st.DataObject) -> None:
    """A round that was cut or prolonged is refused, wherever it stands among others."""
    records = as_rounds(sample)
    at = data.draw(st.integers(0, len(records) - 1))
    length = data.draw(st.integers(0, len(records[at]) + 9).filter(lambda n: n != len(records[at])))
    records[at] = (records[at] + bytes(9))[:length]
    with pytest.raises(StoreCorruptError):
        sample.format.decode_rounds(records)


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
        ("leftover", -0.1),
        ("leftover", 1.0),
        ("leftover", math.nan),
        ("context", math.inf),
        ("evidence", math.nan),
    ],
)
def test_impossible_numbers_are_corrupt(column: str, value: float) -> None:
    """A number that would lead a compiled fold astray is refused: labels are its indices."""
    numbers = np.ones((2, 2))
    shape = RecordFormat(label_form(4), 2, 2)
    records = as_rounds(plain_sample(label_form(4), shape, 3, numbers, numbers))
    table, contexts = shape.table(records).copy(), numbers.copy()
    shape.decode_rounds(records)
    (contexts if column == "context" else table[column])[1] = value
    with pytest.raises(StoreCorruptError, match="impossible"):
        shape.decode_rounds([row.tobytes() + x.tobytes() for row, x in zip(table, contexts, strict=True)])


@pytest.mark.parametrize("form", [label_set_form(3), ranking_form(3)], ids=["set", "ranking"])
def test_only_a_vanishing_propensity_may_be_zero(form: OutputForm) -> None:
    """Of sets and rankings, whose propensities may be too small for a number, 0 is possible and less is not."""
    shape, numbers = RecordFormat(form, 1, 1), np.ones((1, 1))
    answer = [1, 0, 2] if form.dtype.base == np.int32 else [1, 0, 1]
    table = shape.table(as_rounds(plain_sample(form, shape, answer, numbers, numbers))).copy()
    for propensity, possible in ((0.0, True), (-5e-324, False), (-0.1, False)):
        table["propensity"] = propensity
        damaged = [table[0].tobytes() + numbers.tobytes()]
        if possible:
            assert shape.decode_rounds(damaged).propensities.tolist() == [propensity]
        else:
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds(damaged)


@pytest.mark.parametrize("column", ["output", "truth"])
@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        (label_set_form(3), [0, 2, 1]),
        (label_set_form(3), [-1, -1, 1]),
        (ranking_form(3), [0, 1, 1]),
        (ranking_form(3), [0, 1, 3]),
        (ranking_form(3), [-1, -1, 0]),
    ],
)
def test_impossible_rows_are_corrupt(form: OutputForm, wrong: list[int], column: str) -> None:
    """A row that is no set or ranking is refused, as an answer and as a truth; unknown may be a whole truth only."""
    shape, numbers = RecordFormat(form, 1, 1), np.ones((2, 1))
    sample = plain_sample(form, shape, [0, 1, 2] if form.dtype.base == np.int32 else [0, 1, 1], numbers, numbers)
    records = as_rounds(sample)
    for row, refused in ((wrong, True), ([-1, -1, -1], column == "output")):
        table = shape.table(records).copy()
        table[column][1] = row
        damaged = [each.tobytes() + numbers[:1].tobytes() for each in table]
        if refused:
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds(damaged)
        else:
            assert shape.decode_rounds(damaged).true_labels[1].tolist() == row


@LAWS
@given(samples(), st.data())
def test_damage_is_noticed_or_harmless(sample: Sample, data: st.DataObject) -> None:
    """With any byte of a head, an outcome or a round changed, decoding answers or raises StoreCorruptError."""
    record, played = sample.encoded()[0], as_rounds(sample)[0]
    for decode, whole in (
        (decode_head, record[: sample.format.head_bytes]),
        (decode_outcome, played[: _OUTCOME.size + sample.form.dtype.itemsize]),
        (lambda damaged: sample.format.decode_rounds([damaged]), played),
    ):
        at, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
        try:
            decode(whole[:at] + bytes([byte]) + whole[at + 1 :])
        except StoreCorruptError:
            continue


@LAWS
@given(st.binary(max_size=200))
def test_noise_is_noticed_or_harmless(noise: bytes) -> None:
    """Any bytes at all are decoded or refused with StoreCorruptError, never with anything else."""
    for decode in (decode_head, decode_outcome, lambda data: RecordFormat(label_form(3), 1, 2).decode_rounds([data])):
        try:
            decode(noise)
        except StoreCorruptError:
            continue


@LAWS
@given(samples(), st.integers(0, 255).filter(lambda version: version != FORMAT))
def test_another_format_is_refused(sample: Sample, version: int) -> None:
    """A head that a later version wrote is not taken for one of ours."""
    with pytest.raises(StoreCorruptError, match="unknown format"):
        decode_head(bytes([version]) + sample.encoded()[0][1:])


def test_nothing_is_lost_to_rounding() -> None:
    """Numbers that single precision would change survive: a third, the smallest and the largest."""
    numbers = np.array([[1 / 3, 5e-324, 1.7976931348623157e308, -math.pi]])
    sample = plain_sample(label_form(2), RecordFormat(label_form(2), 0, 4), 0, numbers, np.empty((1, 0)))
    assert sample.format.decode_rounds(as_rounds(sample)).contexts.values.tolist() == numbers[0].tolist()


# --- sparse contexts


def sparse_round(shape: RecordFormat, indices: list[int], values: list[float]) -> bytes:
    """A round whose context has these numbers."""
    head = Head(bytes(16), 0.1, 1, 1 / 3, encoded_answer(label_form(4), 3))
    contexts = Contexts.sparse([len(indices)], indices, values)
    (record,) = shape.encode_predictions([head], contexts, np.ones((1, 2)), np.zeros(1), 0.1)
    return _OUTCOME.pack(True, 0.2, 1) + encoded_answer(label_form(4), 3) + record[shape.head_bytes :]


def test_sparse_contexts_survive_to_the_bit() -> None:
    """Indices and numbers of rounds of any lengths come out as they went in; none at all is a context too."""
    shape = RecordFormat(label_form(4), 2, 7, sparse=True)
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
    shape = RecordFormat(label_form(4), 2, 7, sparse=True)
    record = sparse_round(shape, [0, index], [1.0, value])
    with pytest.raises(StoreCorruptError, match=reason):
        shape.decode_rounds([sparse_round(shape, [0], [1.0]), record[: len(record) - cut]])

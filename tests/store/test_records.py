"""The laws of the packed records: what goes in comes out, and damage is noticed or harmless."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.base import NO_LABEL, Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.records import _OUTCOME, HEAD_BYTES, Head, RecordFormat, decode_head, decode_outcome

LAWS = settings(deadline=None, derandomize=True, max_examples=100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**53)
LABELS = 2**31 - 1
HEADS = st.builds(
    Head,
    st.binary(min_size=16, max_size=16),
    FLOATS,
    COUNTS,
    st.integers(0, LABELS - 1),
    st.floats(0.0, 1.0, exclude_min=True),
)


class Sample(NamedTuple):
    """Predictions as a desk has them, with the format of their model."""

    format: RecordFormat
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
    """Up to four predictions of any shape, with any finite numbers."""
    n, E, d = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    numbers = np.array(draw(st.lists(FLOATS, min_size=n * (d + E), max_size=n * (d + E)))).reshape(n, d + E)
    heads = draw(st.lists(HEADS, min_size=n, max_size=n))
    return Sample(RecordFormat(LABELS, E, d), heads, numbers[:, :d], numbers[:, d:], draw(FLOATS))


def as_rounds(sample: Sample, correct: bool = True, true_label: int = NO_LABEL) -> list[bytes]:
    """What add_feedback.lua makes of the records: the outcome, then the body."""
    outcomes = [_OUTCOME.pack(correct, true_label, sample.now, number + 1) for number in range(len(sample.heads))]
    return [outcome + record[HEAD_BYTES:] for outcome, record in zip(outcomes, sample.encoded(), strict=True)]


@LAWS
@given(samples())
def test_a_head_survives(sample: Sample) -> None:
    """The head of each encoded prediction is the one that was given."""
    assert [decode_head(record) for record in sample.encoded()] == sample.heads


@LAWS
@given(samples(), st.booleans(), st.integers(-1, LABELS - 1))
def test_rounds_survive_to_the_bit(sample: Sample, correct: bool, true_label: int) -> None:
    """Labels, propensities, contexts, evidence and outcome come out of a round as they went into it."""
    rounds = sample.format.decode_rounds(as_rounds(sample, correct, true_label))
    assert rounds.contexts.values.tobytes() == sample.contexts.tobytes()
    assert rounds.evidence.tobytes() == sample.evidence.tobytes()
    assert rounds.leftovers.tolist() == np.linspace(0.0, 0.9, rounds.n).tolist()
    assert rounds.evidence.shape == sample.evidence.shape
    assert [(h.label, h.propensity) for h in sample.heads] == list(
        zip(rounds.labels.tolist(), rounds.propensities.tolist(), strict=True)
    )
    assert rounds.correct.tolist() == [correct] * rounds.n
    assert rounds.true_labels.tolist() == [true_label] * rounds.n


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
@given(st.booleans(), st.none() | st.integers(0, 2**31 - 1), FLOATS, COUNTS)
def test_an_outcome_survives(correct: bool, true_label: int | None, feedback_at: float, number: int) -> None:
    """The outcome in a feedback's reply is the one that was packed; -1 stands for a label not known."""
    packed = _OUTCOME.pack(correct, NO_LABEL if true_label is None else true_label, feedback_at, number)
    assert decode_outcome(packed) == (correct, true_label, feedback_at, number)


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
        ("label", -1),
        ("label", 4),
        ("label", 2**31 - 1),
        ("true_label", -2),
        ("true_label", 4),
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
    heads = [Head(bytes(16), 0.0, 0, 3, 1.0)] * 2
    records = as_rounds(Sample(RecordFormat(4, 2, 2), heads, numbers, numbers, 0.0))
    table, contexts = RecordFormat(4, 2, 2).table(records).copy(), numbers.copy()
    RecordFormat(4, 2, 2).decode_rounds(records)
    (contexts if column == "context" else table[column])[1] = value
    with pytest.raises(StoreCorruptError, match="impossible"):
        RecordFormat(4, 2, 2).decode_rounds(
            [row.tobytes() + x.tobytes() for row, x in zip(table, contexts, strict=True)]
        )


@LAWS
@given(samples(), st.data())
def test_damage_is_noticed_or_harmless(sample: Sample, data: st.DataObject) -> None:
    """With any byte of a head, an outcome or a round changed, decoding answers or raises StoreCorruptError."""
    record, played = sample.encoded()[0], as_rounds(sample)[0]
    for decode, whole in (
        (decode_head, record[:HEAD_BYTES]),
        (decode_outcome, played[: _OUTCOME.size]),
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
    for decode in (decode_head, decode_outcome, lambda data: RecordFormat(3, 1, 2).decode_rounds([data])):
        try:
            decode(noise)
        except StoreCorruptError:
            continue


@LAWS
@given(samples(), st.integers(2, 255))
def test_another_format_is_refused(sample: Sample, version: int) -> None:
    """A head that a later version wrote is not taken for one of ours."""
    with pytest.raises(StoreCorruptError, match="unknown format"):
        decode_head(bytes([version]) + sample.encoded()[0][1:])


def test_nothing_is_lost_to_rounding() -> None:
    """Numbers that single precision would change survive: a third, the smallest and the largest."""
    numbers = np.array([[1 / 3, 5e-324, 1.7976931348623157e308, -math.pi]])
    sample = Sample(RecordFormat(2, 0, 4), [Head(bytes(16), 0.1, 1, 0, 1 / 3)], numbers, np.empty((1, 0)), 0.1)
    assert sample.format.decode_rounds(as_rounds(sample)).contexts.values.tolist() == numbers[0].tolist()

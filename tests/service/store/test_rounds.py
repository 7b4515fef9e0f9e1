"""The laws of rounds: recorded feedback round-trips to the bit, and damaged or unknown rounds are refused."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.base import Contexts
from service.errors import NewerVersionError, StoreCorruptError
from service.prediction_id import tokens_of
from service.store.records.codecs import (
    AnswerCodec,
    ContextCodec,
    DenseCodec,
    SparseCodec,
    label_codec,
    label_set_codec,
    ranking_codec,
)
from service.store.records.layout import EVIDENCE, INACTIVE, OPEN, PENDING, ROUND
from service.store.records.records import RecordFormat
from service.store.records.rounds import StoredRounds
from tests.service.store.record_samples import LAWS, Sample, as_rounds, plain_sample, samples
from tests.service.store.samples import as_round, changed_round, resealed


@LAWS
@given(samples())
def test_rounds_survive_to_the_bit(sample: Sample) -> None:
    """Answers, propensities, contexts, evidence and outcomes round-trip."""
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
def test_the_table_has_times_and_round_numbers(sample: Sample) -> None:
    """Each row has its round number, the rounds its prediction had seen, and the times of prediction and feedback."""
    table = sample.format.table(as_rounds(sample))
    n = len(sample.answers)
    assert table["round"].tolist() == list(range(1, n + 1))
    assert table["rounds_seen"].tolist() == [sample.made.rounds_seen] * n
    assert table["predicted_at"].tolist() == table["feedback_at"].tolist() == [sample.made.predicted_at] * n
    assert table["token"].tolist() == tokens_of(sample.bounds, "secret")
    assert {len(record) for record in as_rounds(sample)} == {sample.format.round_bytes}
    together = sample.format.table([b"".join(as_rounds(sample))])
    assert together.tobytes() == table.tobytes()


@LAWS
@given(samples())
def test_decoded_rounds_share_no_arrays(sample: Sample) -> None:
    """Writing to one decoding's arrays does not change another's."""
    records = as_rounds(sample)
    first, second = sample.format.decode_rounds(records), sample.format.decode_rounds(records)
    for mine, other in zip([*first[1:], first.contexts.values], [*second[1:], second.contexts.values], strict=True):
        assert isinstance(mine, np.ndarray)
        assert isinstance(other, np.ndarray)
        before = other.tobytes()
        mine[...] = 1
        assert other.tobytes() == before


@LAWS
@given(samples(), st.data())
def test_a_record_of_the_wrong_length_is_corrupt(sample: Sample, data: st.DataObject) -> None:
    """A truncated or extended round is refused at any position among others."""
    records = as_rounds(sample)
    at = data.draw(st.integers(0, len(records) - 1))
    length = data.draw(st.integers(1, len(records[at]) + 9).filter(lambda n: n != len(records[at])))
    records[at] = (records[at] + bytes(9))[:length]
    with pytest.raises(StoreCorruptError):
        sample.format.decode_rounds(records)


@pytest.mark.parametrize("codec", [DenseCodec(2), SparseCodec(2)], ids=["dense", "sparse"])
def test_a_round_with_a_false_length_is_corrupt(codec: ContextCodec) -> None:
    """A round with a false length is refused even if its bytes would parse; its entry is split at the true bounds."""
    shape, rounds = two_rounds(codec)
    for length in (0, 3, len(rounds[0]) - 1, len(rounds[0]) + 1, 2 * len(rounds[0]), 2**32 - 1):
        lying = length.to_bytes(4, "little") + rounds[0][4:] + rounds[1]
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([lying])
        if length != 2 * len(rounds[0]):
            assert shape.round_bounds(lying) == [0, len(rounds[0]), len(lying)]
    for length in (4, 10, shape.round_bytes - 1):  # truncated, with the true length
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([length.to_bytes(4, "little") + rounds[0][4:length]])


def test_an_entry_of_rounds_of_one_length_is_split_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are those of the walk from round to round, also where stored lengths are wrong in the same way."""
    shape, (first, second) = two_rounds(DenseCodec(2))
    size = len(first)
    lengths = [0, 1, 4, size // 2, size - 1, size, size + 1, 2 * size, 2**24 + size, 2**32 - 1]
    lying = [length.to_bytes(4, "little") + first[4:] for length in lengths]
    payloads = [one + other for one in lying for other in [second, second[:-1], b"", 3 * second, *lying]]

    def bounds(payload: bytes) -> list[int] | None:
        try:
            return shape.round_bounds(payload)
        except StoreCorruptError:
            return None

    found = [bounds(payload) for payload in payloads]
    monkeypatch.setattr(StoredRounds, "_alike", lambda *_: None)
    assert found == [bounds(payload) for payload in payloads]
    assert [0, size, 2 * size] in found


def two_rounds(codec: ContextCodec) -> tuple[RecordFormat, list[bytes]]:
    """Return two rounds of two features and two numbers of evidence each."""
    shape, numbers = RecordFormat(label_codec(4), 2, codec), np.ones((2, 2))
    sparse = Contexts.sparse([2, 2], [0, 1, 0, 1], numbers.reshape(-1))
    contexts = sparse if codec.fixed_bytes is None else Contexts.dense(numbers)
    made = plain_sample(label_codec(4), shape, 3, numbers, numbers).made._replace(contexts=contexts)
    (record,) = shape.encode_blocks(made, [0, 2], tokens_of([0, 2], ""), [bytes(16)])
    return shape, [as_round(record, i, (False, 0.1, i + 1)) for i in range(2)]


NEWER: dict[str, dict[str, Any]] = {
    "open": {"kind": OPEN},
    "feedback that waits": {"kind": PENDING},
    "inactive": {"kind": INACTIVE},
    "unknown kind": {"kind": 9},
    "actions": {"actions_bytes": 8, "context_bytes": 8},
    "without evidence": {"flags": 0},
}
NEWER |= {f"unknown flag {flag}": {"flags": flag | EVIDENCE} for flag in (2**4, 2**5, 2**15)}


@pytest.mark.parametrize("codec", [DenseCodec(2), SparseCodec(2)], ids=["dense", "sparse"])
@pytest.mark.parametrize("what", NEWER)
def test_a_round_of_a_newer_version_is_refused(codec: ContextCodec, what: str) -> None:
    """An intact round with unknown content stops the reader; with a wrong checksum it is damaged."""
    shape, rounds = two_rounds(codec)
    newer = changed_round(rounds[1], label_codec(4), **NEWER[what])
    with pytest.raises(NewerVersionError):
        shape.decode_rounds([rounds[0], newer])
    check = ROUND.place("check")
    for at in (check, ROUND.place("body_check", "V4")):
        damaged = newer[:at] + bytes([newer[at] ^ 1]) + newer[at + 1 :]
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([rounds[0], damaged])


@pytest.mark.parametrize("codec", [DenseCodec(2), SparseCodec(2)], ids=["dense", "sparse"])
def test_a_body_without_known_parts_is_refused(codec: ContextCodec) -> None:
    """If a later version omits parts, no bytes of another part are read in their place."""
    shape, rounds = two_rounds(codec)
    core = ROUND.size + 8
    bare = changed_round((core).to_bytes(4, "little") + rounds[1][4:core], label_codec(4), flags=0)
    with pytest.raises(NewerVersionError):
        shape.decode_rounds([rounds[0] + bare])
    with pytest.raises(StoreCorruptError):
        shape.decode_rounds([rounds[0] + changed_round(bare, label_codec(4), flags=1)])


@pytest.mark.parametrize("codec", [DenseCodec(2), SparseCodec(2)], ids=["dense", "sparse"])
@pytest.mark.parametrize("sent", [1, 8, 16, 1000])
def test_a_context_as_sent_is_skipped(codec: ContextCodec, sent: int) -> None:
    """Rounds decode to the same values with and without the context as sent, alone and among others."""
    shape, rounds = two_rounds(codec)
    longer = (len(rounds[1]) + sent).to_bytes(4, "little") + rounds[1][4:] + b"\xfe" * sent
    with_it = changed_round(longer, label_codec(4), context_bytes=codec.fixed_bytes or 24, sent_bytes=sent)
    for those, as_those in (([with_it], rounds[1:]), ([rounds[0] + with_it, rounds[0]], [*rounds, rounds[0]])):
        found, expected = shape.decode_rounds(those), shape.decode_rounds(as_those)
        assert [part.tobytes() for part in found[1:]] == [part.tobytes() for part in expected[1:]]
        assert found.contexts.values.tolist() == expected.contexts.values.tolist()
        assert found.contexts.starts.tolist() == expected.contexts.starts.tolist()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("output", -1),
        ("output", 4),
        ("output", 2**31 - 1),
        ("truth", -2),
        ("truth", 4),
        ("reward", -1.0),
        ("reward", 1.5),
        ("reward", 1.0),
        ("reward", math.nan),
        ("labels", 0),
        ("labels", 5),
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
    """A number that would break a compiled fold is refused, as labels index its arrays."""
    shape, rounds = two_rounds(DenseCodec(2))
    shape.decode_rounds(rounds)
    if column in ROUND.fields:
        wrong = changed_round(rounds[1], label_codec(4), **{column: value})
    else:
        end = len(rounds[1]) - (16 if column == "evidence" else 0)
        wrong = resealed(rounds[1][: end - 8] + struct.pack("<d", value) + rounds[1][end:], 4)
    with pytest.raises(StoreCorruptError, match="impossible"):
        shape.decode_rounds([rounds[0], wrong])


@pytest.mark.parametrize("form", [label_set_codec(3), ranking_codec(3)], ids=["set", "ranking"])
def test_a_propensity_is_above_zero(form: AnswerCodec) -> None:
    """However small the propensities of sets and rankings are, none is 0 or below."""
    shape, numbers = RecordFormat(form, 1, DenseCodec(1)), np.ones((1, 1))
    answer = [1, 0, 2] if form.dtype.base == np.int32 else [1, 0, 1]
    (played,) = as_rounds(plain_sample(form, shape, answer, numbers, numbers))
    for propensity, possible in ((5e-324, True), (0.0, False), (-5e-324, False), (-0.1, False)):
        damaged = [changed_round(played, form, propensity=propensity)]
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
    """A row that is not a set or a ranking is refused; only a complete truth may be unknown."""
    shape, numbers = RecordFormat(form, 1, DenseCodec(1)), np.ones((2, 1))
    sample = plain_sample(form, shape, [0, 1, 2] if form.dtype.base == np.int32 else [0, 1, 1], numbers, numbers)
    records = as_rounds(sample)
    for row, refused in ((wrong, True), ([-1, -1, -1], column == "output")):
        damaged = [records[0], changed_round(records[1], form, **{column: [row], "reward": 0.0})]
        if refused:
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds(damaged)
        else:
            assert shape.decode_rounds(damaged).true_labels[1].tolist() == row


def test_nothing_is_lost_to_rounding() -> None:
    """Numbers that single precision cannot represent survive: a third, the smallest and the largest."""
    numbers = np.array([[1 / 3, 5e-324, 1.7976931348623157e308, -math.pi]])
    sample = plain_sample(label_codec(2), RecordFormat(label_codec(2), 0, DenseCodec(4)), 0, numbers, np.empty((1, 0)))
    assert sample.format.decode_rounds(as_rounds(sample)).contexts.values.tolist() == numbers[0].tolist()

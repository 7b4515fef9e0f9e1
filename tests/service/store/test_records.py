"""The laws of blocks and rounds: they round-trip to the bit, and damaged or unknown ones are refused."""

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.base import Contexts, FloatArray
from service.errors import NewerVersionError, StoreCorruptError, StoreError
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
from service.store.records.layout import (
    EVIDENCE,
    HOLDOUT,
    INACTIVE,
    OPEN,
    PENDING,
    PRICE,
    PRICED,
    ROUND,
    SIZES,
    VERSION,
)
from service.store.records.new_predictions import BLOCK_BYTES, NewPredictions
from service.store.records.optional_fields import ANOTHERS, GIVEN_COSTS, NO_OPTIONAL_FIELDS, OptionalFields
from service.store.records.outcomes import decode_outcomes
from service.store.records.records import RecordFormat
from service.store.records.rounds import StoredRounds
from tests.service.store.samples import (
    as_round,
    block_offsets,
    changed_round,
    new_predictions,
    resealed,
    without_bodies,
)

LAWS = settings(deadline=None, derandomize=True, max_examples=100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.floats(0.0, 2.5e11)
COUNTS = st.integers(0, 2**53)
LABELS, MANY = 11, 2**31 - 1
FORMS: list[tuple[AnswerCodec, st.SearchStrategy[Any]]] = [
    (label_codec(LABELS), st.integers(0, LABELS - 1)),
    (label_codec(MANY), st.integers(0, MANY - 1)),
    (label_set_codec(3), st.lists(st.integers(0, 1), min_size=3, max_size=3)),
    (ranking_codec(4), st.permutations(range(4))),
]
UNKNOWN = -1
FOUR = label_codec(4)
CODECS = pytest.mark.parametrize("codec", [DenseCodec(2), SparseCodec(9)], ids=["dense", "sparse"])


def encoded_answer(form: AnswerCodec, answer: Any) -> bytes:
    return form.encode(np.full((1, *form.dtype.shape), answer, dtype=np.int64))[0]


class Sample(NamedTuple):
    """Predictions as a session passes them to the store, with their model's format."""

    form: AnswerCodec
    format: RecordFormat
    answers: list[Any]
    truth: Any  # an answer, or UNKNOWN
    made: NewPredictions
    bounds: list[int]
    fingerprints: list[bytes]

    def encoded(self) -> list[bytes]:
        """Encode the blocks."""
        return self.format.encode_blocks(self.made, self.bounds, tokens_of(self.bounds, "secret"), self.fingerprints)

    def rounds(self) -> list[bytes]:
        """Return the rounds that feedback makes of the predictions."""
        truth, rounds = encoded_answer(self.form, self.truth), list[bytes]()
        for record, (start, stop) in zip(self.encoded(), pairwise(self.bounds), strict=True):
            for i in range(stop - start):
                outcome = (bool(self.truth == self.answers[len(rounds)]), float(self.made.predicted_at))
                rounds.append(as_round(record, i, (*outcome, len(rounds) + 1), truth))
        return rounds


@st.composite
def some_contexts(draw: st.DrawFn, n: int) -> tuple[ContextCodec, Contexts]:
    d, kind = draw(st.integers(1, 4)), draw(st.sampled_from(["dense", "float32", "sparse"]))
    if kind == "sparse":
        rows = draw(st.lists(st.lists(st.integers(0, 8), unique=True, max_size=4), min_size=n, max_size=n))
        indices = [index for row in rows for index in row]
        values = draw(st.lists(FLOATS, min_size=len(indices), max_size=len(indices)))
        return SparseCodec(9), Contexts.sparse([len(row) for row in rows], indices, values)
    width: Literal[32, 64] = 32 if kind == "float32" else 64
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
    values = draw(st.lists(numbers, min_size=n * d, max_size=n * d))
    return DenseCodec(d, "<f4") if width == 32 else DenseCodec(d), Contexts.dense(np.array(values).reshape(n, d))


@st.composite
def some_parts(draw: st.DrawFn, n: int, labels: list[int] | None) -> OptionalFields:
    eligible = np.ones((n, 0), np.bool_)
    if labels is not None and draw(st.booleans()):
        eligible = np.array(draw(st.lists(st.booleans(), min_size=n * LABELS, max_size=n * LABELS))).reshape(n, LABELS)
        eligible[np.arange(n), labels] = True
        eligible[0, 0 if labels[0] else 1] = False  # otherwise it may have no mask
    sent, actions = (draw(st.just([]) | st.lists(st.binary(max_size=600), min_size=n, max_size=n)) for _ in range(2))
    prices, costs = draw(some_prices(n, 0 if labels is None else LABELS))
    return OptionalFields(eligible, sent, actions, prices, costs)


def given_costs(pairs: Sequence[tuple[int, float]]) -> bytes:
    return np.array(pairs, GIVEN_COSTS).tobytes()


NUMBERS = st.floats(0.0, allow_infinity=False)
UNPRICED = (math.nan, math.nan)


@st.composite
def some_prices(draw: st.DrawFn, n: int, K: int) -> tuple[FloatArray, list[bytes]]:
    """Draw the prices of n rounds, some of them without, and costs of some of K labels for some that have one."""
    if draw(st.booleans()):
        return np.empty((0, 0)), []
    price = st.tuples(NUMBERS | st.just(ANOTHERS), NUMBERS) | st.just(UNPRICED)
    prices = draw(st.lists(price, min_size=n, max_size=n))
    own = st.lists(st.tuples(st.integers(0, max(0, K - 1)), NUMBERS), max_size=K).map(given_costs)
    costs = [b"" if row is UNPRICED else draw(own) for row in prices]
    return np.array(prices), costs if any(costs) else []


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Draw up to four predictions of any shape and kind, with any finite numbers and parts, in any blocks."""
    n, E = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    form, answer = draw(st.sampled_from(FORMS))
    answers, truth = draw(st.lists(answer, min_size=n, max_size=n)), draw(answer | st.just(UNKNOWN))
    codec, contexts = draw(some_contexts(n))
    evidence = np.array(draw(st.lists(FLOATS, min_size=n * E, max_size=n * E))).reshape(n, E)
    made = new_predictions(
        form,
        answers,
        contexts,
        evidence,
        propensities=np.array(draw(st.lists(st.floats(0.0, 1.0, exclude_min=True), min_size=n, max_size=n))),
        residual_uniforms=np.linspace(0.0, 0.9, n),
        predicted_at=draw(MOMENTS),
        expires_at=draw(MOMENTS),
        rounds_seen=draw(COUNTS),
        parts=draw(some_parts(n, answers if form is FORMS[0][0] else None)),
        holdout=np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))),
    )
    bounds = [0, *sorted(draw(st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set()))), n]
    fingerprints = draw(
        st.lists(st.binary(min_size=16, max_size=16), min_size=len(bounds) - 1, max_size=len(bounds) - 1)
    )
    return Sample(form, RecordFormat(form, E, codec, has_actions=True), answers, truth, made, bounds, fingerprints)


@LAWS
@given(samples())
def test_the_stored_predictions_of_a_block_survive(sample: Sample) -> None:
    blocks = zip(sample.encoded(), pairwise(sample.bounds), sample.fingerprints, strict=True)
    for record, (start, stop), fingerprint in blocks:
        for stored in (record, without_bodies(record)):
            kept = sample.format.decode_stored(stored)
            assert kept[:3] == (fingerprint, sample.made.expires_at, sample.made.rounds_seen)
            assert kept.propensities.tolist() == sample.made.propensities[start:stop].tolist()
            assert kept.outputs.tolist() == list(sample.answers[start:stop])


@LAWS
@given(samples())
def test_rounds_survive_to_the_bit(sample: Sample) -> None:
    records, made, n = sample.rounds(), sample.made, len(sample.answers)
    rounds, (table, contexts, parts) = sample.format.decode_rounds(records), sample.format.rows(records)
    for found in (rounds.contexts, contexts):
        assert [part.tobytes() for part in found[:3]] == [part.tobytes() for part in made.contexts[:3]]
    assert rounds.evidence.tobytes() == table["evidence"].tobytes() == made.evidence.tobytes()
    assert rounds.evidence.shape == made.evidence.shape
    assert rounds.residual_uniforms.tolist() == made.residual_uniforms.tolist()
    assert rounds.labels.tolist() == sample.answers
    assert rounds.propensities.tolist() == made.propensities.tolist()
    assert rounds.correct.tolist() == [answer == sample.truth for answer in sample.answers]
    assert rounds.true_labels.tolist() == np.full((n, *sample.form.dtype.shape), sample.truth).tolist()
    assert table["round"].tolist() == list(range(1, n + 1))
    assert table["rounds_seen"].tolist() == [made.rounds_seen] * n
    assert table["predicted_at"].tolist() == table["feedback_at"].tolist() == [made.predicted_at] * n
    assert table["token"].tolist() == tokens_of(sample.bounds, "secret")
    assert ((table["flags"] & HOLDOUT) > 0).tolist() == np.array(made.holdout).tolist()
    assert parts.eligible.tolist() == made.parts.eligible.tolist()
    assert list(parts.sent) == list(made.parts.sent or [b""] * n)
    assert list(parts.actions) == list(made.parts.actions or [b""] * n)
    assert parts.prices.tobytes() == (made.parts.prices.tobytes() if not np.isnan(made.parts.prices).all() else b"")
    assert list(parts.costs) == list(made.parts.costs or [b""] * n)
    assert sample.format.table([b"".join(records)]).tobytes() == table.tobytes()


@LAWS
@given(samples(), st.data())
def test_no_damage_is_read(sample: Sample, data: st.DataObject) -> None:
    record, played = sample.encoded()[0], sample.rounds()[0]
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
    shape, thin = (RecordFormat(label_codec(3), 1, codec) for codec in (DenseCodec(2), SparseCodec(2)))
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
    expected = StoreCorruptError if version < VERSION else NewerVersionError
    with pytest.raises(expected, match="format"):
        sample.format.decode_stored(bytes([version]) + sample.encoded()[0][1:])


@pytest.mark.parametrize(("sparse", "n", "expected"), [(False, 1, 1), (False, 40, 1), (False, 600, 5), (True, 400, 3)])
def test_predictions_share_blocks_of_nearly_equal_size(sparse: bool, n: int, expected: int) -> None:
    codec: ContextCodec = SparseCodec(3) if sparse else DenseCodec(3)
    shape, numbers = RecordFormat(label_codec(4), 2, codec), np.ones((n, 3))
    contexts = Contexts.sparse([1] * n, [2] * n, numbers[:, 0]) if sparse else Contexts.dense(numbers)
    bounds = shape.bounds(contexts)
    made = new_predictions(label_codec(4), [1] * n, contexts, numbers[:, :2])
    blocks = shape.encode_blocks(made, bounds, tokens_of(bounds, ""), [bytes(16)] * (len(bounds) - 1))
    assert len(blocks) == expected
    assert max(map(len, blocks)) <= BLOCK_BYTES + 60
    assert max(np.diff(bounds)) - min(np.diff(bounds)) <= 1


# --- rounds of two features


def played(
    codec: ContextCodec, answers: Any, E: int = 0, form: AnswerCodec = FOUR, **others: Any
) -> tuple[RecordFormat, list[bytes]]:
    """Return the rounds that wrong answers make of predictions in one block, and their format."""
    n, shape = len(answers), RecordFormat(form, E, codec)
    contexts = Contexts.dense(np.eye(n, 2))
    if codec.fixed_bytes is None:
        rows = [([8, 0], [1 / 3, -2.0]), ([], []), ([3], [5e-324])][:n]
        indices, values = ([number for row in rows for number in row[part]] for part in (0, 1))
        contexts = Contexts.sparse([len(row) for row, _ in rows], indices, values)
    made = new_predictions(form, answers, contexts, np.arange(1.0 * n * E).reshape(n, -1), **others)
    (record,) = shape.encode_blocks(made, [0, n], tokens_of([0, n], ""), [bytes(16)])
    return shape, [as_round(record, i, (False, 0.1, i + 1)) for i in range(n)]


def two_rounds(codec: ContextCodec) -> tuple[RecordFormat, list[bytes]]:
    return played(codec, [3, 3], 2)


@CODECS
def test_a_round_with_a_false_length_is_corrupt(codec: ContextCodec) -> None:
    shape, rounds = two_rounds(codec)
    for length in (0, 3, len(rounds[0]) - 1, len(rounds[0]) + 1, 2 * len(rounds[0]), 2**32 - 1):
        lying = length.to_bytes(4, "little") + rounds[0][4:] + rounds[1]
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([lying])
        if length not in (2 * len(rounds[0]), len(lying)):
            assert shape.round_bounds(lying) == [0, len(rounds[0]), len(lying)]
    for length in (4, 10, shape.round_bytes - 1):  # truncated, with the true length
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([length.to_bytes(4, "little") + rounds[0][4:length]])


def test_an_entry_of_rounds_of_one_length_is_split_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
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


NEWER: list[dict[str, Any]] = [
    *({"kind": kind} for kind in (OPEN, PENDING, INACTIVE, 9)),
    {"actions_bytes": 8, "context_bytes": 8},
    *({"flags": flags} for flags in (0, 2**6 | EVIDENCE, 2**7 | EVIDENCE, 2**15 | EVIDENCE)),
]


@CODECS
@pytest.mark.parametrize("change", NEWER, ids=str)
def test_a_round_of_a_newer_version_is_refused(codec: ContextCodec, change: dict[str, Any]) -> None:
    shape, rounds = two_rounds(codec)
    newer = changed_round(rounds[1], label_codec(4), **change)
    with pytest.raises(NewerVersionError):
        shape.decode_rounds([rounds[0], newer])
    for at in (ROUND.place("check"), ROUND.place("body_check", "V4")):
        damaged = newer[:at] + bytes([newer[at] ^ 1]) + newer[at + 1 :]
        with pytest.raises(StoreCorruptError):
            shape.decode_rounds([rounds[0], damaged])


@CODECS
def test_a_body_without_known_parts_is_refused(codec: ContextCodec) -> None:
    shape, rounds = two_rounds(codec)
    core = ROUND.size + 8
    bare = changed_round((core).to_bytes(4, "little") + rounds[1][4:core], label_codec(4), flags=0)
    for body, error in ((bare, NewerVersionError), (changed_round(bare, label_codec(4), flags=1), StoreCorruptError)):
        with pytest.raises(error):
            shape.decode_rounds([rounds[0] + body])


IMPOSSIBLE: dict[str, list[float]] = {
    "output": [-1, 4, MANY],
    "truth": [-2, 4],
    "reward": [-1.0, 1.5, 1.0, math.nan],
    "labels": [0, 5],
    "propensity": [0.0, 1.001, math.nan],
    "residual_uniform": [-0.1, 1.0, math.nan],
    "context": [math.inf],
    "evidence": [math.nan],
}


@pytest.mark.parametrize("column", IMPOSSIBLE)
def test_impossible_numbers_are_corrupt(column: str) -> None:
    shape, rounds = two_rounds(DenseCodec(2))
    shape.decode_rounds(rounds)
    for value in IMPOSSIBLE[column]:
        if column in ROUND.fields:
            wrong = changed_round(rounds[1], label_codec(4), **{column: value})
        else:
            end = len(rounds[1]) - (16 if column == "evidence" else 0)
            wrong = resealed(rounds[1][: end - 8] + struct.pack("<d", value) + rounds[1][end:], 4)
        with pytest.raises(StoreCorruptError, match="impossible"):
            shape.decode_rounds([rounds[0], wrong])


@pytest.mark.parametrize("answer", [-1, 4])
def test_an_answer_that_the_model_could_not_give_is_corrupt(answer: int) -> None:
    shape = RecordFormat(label_codec(4), 0, DenseCodec(2))
    made = new_predictions(label_codec(4), [answer], Contexts.dense(np.ones((1, 2))))
    (record,) = shape.encode_blocks(made, [0, 1], tokens_of([0, 1], ""), [bytes(16)])
    with pytest.raises(StoreCorruptError, match="impossible output"):
        shape.decode_stored(record)


@pytest.mark.parametrize(
    ("form", "answer", "wrong"),
    [
        (label_set_codec(3), [0, 1, 1], ([0, 2, 1], [-1, -1, 1])),
        (ranking_codec(3), [0, 1, 2], ([0, 1, 1], [0, 1, 3], [-1, -1, 0])),
    ],
    ids=["set", "ranking"],
)
def test_impossible_rows_are_corrupt(form: AnswerCodec, answer: list[int], wrong: tuple[list[int], ...]) -> None:
    """Only a complete truth may be unknown, and no propensity is 0, however small."""
    shape, (first, second) = played(DenseCodec(2), [answer] * 2, 1, form)
    for column in ("output", "truth"):
        for row in (*wrong, *([[-1, -1, -1]] if column == "output" else [])):
            with pytest.raises(StoreCorruptError, match="impossible"):
                shape.decode_rounds([first, changed_round(second, form, **{column: [row], "reward": 0.0})])
    for propensity in (0.0, -5e-324, -0.1):
        with pytest.raises(StoreCorruptError, match="impossible"):
            shape.decode_rounds([changed_round(second, form, propensity=propensity)])
    possible = changed_round(second, form, propensity=5e-324, truth=[[-1, -1, -1]])
    assert shape.decode_rounds([possible]).propensities.tolist() == [5e-324]
    assert shape.decode_rounds([possible]).true_labels.tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize(
    ("index", "value", "cut", "reason"),
    [(-1, 1.0, 0, "out of range"), (9, 1.0, 0, "out of range"), (3, math.nan, 0, "impossible"), (3, 1.0, 1, "damaged")],
)
def test_a_wrong_sparse_context_is_corrupt(index: int, value: float, cut: int, reason: str) -> None:
    shape, others = played(SparseCodec(9), [3])
    made = new_predictions(label_codec(4), [3], Contexts.sparse([2], [0, index], [1.0, value]))
    (block,) = shape.encode_blocks(made, [0, 1], tokens_of([0, 1], ""), [bytes(16)])
    record = as_round(block, 0, (True, 0.2, 1), encoded_answer(label_codec(4), 3))
    if cut:
        shorter = (len(record) - cut).to_bytes(4, "little") + record[4 : len(record) - cut]
        record = changed_round(shorter, label_codec(4), context_bytes=24 - cut)
    with pytest.raises(StoreCorruptError, match=reason):
        shape.decode_rounds([*others, record])


MASK = (np.arange(3 * 4).reshape(3, 4) % 3 != 1) | (np.arange(4) == 2)


@CODECS
@pytest.mark.parametrize("parts", [NO_OPTIONAL_FIELDS, OptionalFields(MASK)])
def test_labels_added_later_were_not_eligible(codec: ContextCodec, parts: OptionalFields) -> None:
    """A round of fewer labels gets evidence of zero for the others."""
    before, old = played(codec, [2] * 3, 4, parts=parts)
    after, new = played(codec, [2] * 3, 9, label_codec(9))
    rows = after.rows([*old, *(changed_round(one, label_codec(9), round=4) for one in new)])
    assert rows.table["labels"].tolist() == [4] * 3 + [9] * 3
    assert not rows.parts.eligible[:3, 4:].any()
    assert rows.parts.eligible[3:].all()
    assert (
        rows.parts.eligible[:3, :4].tolist() == (MASK if parts is not NO_OPTIONAL_FIELDS else np.ones((3, 4))).tolist()
    )
    assert rows.table["evidence"][:3, :4].tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert not rows.table["evidence"][:3, 4:].any()
    with pytest.raises(StoreCorruptError):
        before.rows(new)


def test_a_label_outside_its_mask_is_corrupt() -> None:
    mask = np.ones((3, 4), np.bool_)
    mask[2, 2] = False
    shape, rounds = played(DenseCodec(2), [2] * 3, parts=OptionalFields(mask))
    with pytest.raises(StoreCorruptError, match="eligible"):
        shape.rows(rounds)


# --- prices

PRICES = np.array([[0.5, 2.0], [ANOTHERS, 0.0], [0.0, 1e300]])
SOME_COSTS = [b"", given_costs([(0, 0.0), (2, 1.5), (3, 4.0)]), b""]


def priced(codec: ContextCodec, **others: Any) -> tuple[RecordFormat, list[bytes]]:
    return played(codec, [2] * 3, 1, parts=OptionalFields(MASK, (), (), PRICES, SOME_COSTS)._replace(**others))


def with_price(round_: bytes, **values: Any) -> bytes:
    """Return a round that has SIZES with another price."""
    at = ROUND.size + 8 + SIZES.size
    price = np.frombuffer(round_[at : at + PRICE.size], PRICE.dtype()).copy()
    for name, value in values.items():
        price[name] = value
    return resealed(round_[:at] + price.tobytes() + round_[at + PRICE.size :], 4)


@CODECS
@pytest.mark.parametrize("others", [{}, {"costs": ()}, {"eligible": np.ones((3, 0), np.bool_)}], ids=str)
def test_rounds_with_and_without_prices_are_read_together(codec: ContextCodec, others: dict[str, Any]) -> None:
    """Each round has its own price or none, in one block or in several, and in one entry or in several."""
    shape, old = played(codec, [2] * 3, 1)
    _, new = priced(codec, **others)
    _, both = priced(codec, prices=np.where(np.arange(3)[:, np.newaxis] == 1, np.nan, PRICES), costs=())
    costs = [*([b""] * 3), *(others.get("costs", SOME_COSTS) or [b""] * 3), *([b""] * 3)]
    expected = np.concatenate([np.full((3, 2), np.nan), PRICES, PRICES])
    expected[7] = np.nan
    rounds = [changed_round(one, FOUR, round=i + 1) for i, one in enumerate([*old, *new, *both])]
    for entries in (rounds, [b"".join(rounds)], [b"".join(rounds[:4]), b"".join(rounds[4:])]):
        parts = shape.rows(entries).parts
        assert parts.prices.tobytes() == expected.tobytes()
        assert list(parts.costs) == costs
    assert not shape.rows(old).parts.prices.size
    assert shape.round_bounds(b"".join(rounds)) == [0, *np.cumsum(list(map(len, rounds)))]


@CODECS
def test_a_damaged_length_of_a_priced_round_is_derived_from_its_fields(codec: ContextCodec) -> None:
    shape, rounds = priced(codec)
    for i in range(3):
        lying = [bytes(4) + one[4:] if i == k else one for k, one in enumerate(rounds)]
        assert shape.round_bounds(b"".join(lying)) == [0, *np.cumsum(list(map(len, rounds)))]


@pytest.mark.parametrize("form", [FOUR, label_codec(MANY)], ids=["few", "many"])
def test_each_slot_has_its_own_price(form: AnswerCodec) -> None:
    """The slots of a request share its context, but not their prices."""
    shape, costs = RecordFormat(form, 1, DenseCodec(2)), [given_costs([(1, 0.5), (0, 2.0)]), b"", b""]
    made = new_predictions(form, [2, 0, 1], Contexts.dense(np.ones((1, 2))), np.ones((3, 1)))
    made = made._replace(parts=OptionalFields(np.ones((3, 0), np.bool_), (), (), PRICES, costs))
    (record,) = shape.encode_blocks(made, [0, 3], tokens_of([0, 3], ""), [bytes(16)])
    rows = shape.rows([as_round(record, i, (False, 0.1, i + 1)) for i in (2, 0, 1)])
    assert rows.contexts.values.tolist() == [1.0] * 6
    assert rows.parts.prices.tobytes() == PRICES[[2, 0, 1]].tobytes()
    assert list(rows.parts.costs) == [costs[i] for i in (2, 0, 1)]


IMPOSSIBLE_PRICES: list[dict[str, Any]] = [
    *({"cost_weight": weight} for weight in (-0.5, -2.0, math.inf, math.nan)),
    *({"cost": cost} for cost in (-1.0, math.inf, math.nan)),
    {"cost_weight": math.nan, "cost": math.nan},
    *({"costs": count} for count in (0, 2, 4, 2**32 - 1)),
]


@CODECS
@pytest.mark.parametrize("values", IMPOSSIBLE_PRICES, ids=str)
def test_impossible_prices_are_corrupt(codec: ContextCodec, values: dict[str, Any]) -> None:
    shape, rounds = priced(codec)
    assert shape.rows([*rounds[:1], with_price(rounds[1], cost=3.0)]).parts.prices[1].tolist() == [ANOTHERS, 3.0]
    with pytest.raises(StoreCorruptError):
        shape.rows([rounds[0], with_price(rounds[1], **values)])


@pytest.mark.parametrize("cost", [-1.0, math.inf, math.nan])
def test_impossible_costs_of_labels_are_corrupt(cost: float) -> None:
    shape, rounds = priced(DenseCodec(2), costs=[b"", given_costs([(1, 1.0), (2, cost)]), b""])
    with pytest.raises(StoreCorruptError, match="impossible cost"):
        shape.rows(rounds)


@CODECS
def test_no_damaged_byte_of_a_price_is_read(codec: ContextCodec) -> None:
    shape, rounds = priced(codec)
    at = ROUND.size + 8 + SIZES.size
    for i in range(at, at + PRICE.size + len(SOME_COSTS[1])):
        with pytest.raises(StoreCorruptError):
            shape.rows([rounds[0], rounds[1][:i] + bytes([rounds[1][i] ^ 1]) + rounds[1][i + 1 :]])


def test_a_cost_of_an_unknown_label_is_corrupt() -> None:
    shape, rounds = priced(DenseCodec(2), costs=[b"", given_costs([(4, 1.0)]), b""])
    with pytest.raises(StoreCorruptError, match="impossible cost"):
        shape.rows(rounds)


def test_a_round_that_ends_before_its_price_is_corrupt() -> None:
    shape, rounds = two_rounds(DenseCodec(2))
    with pytest.raises(StoreCorruptError):
        shape.rows([rounds[0], changed_round(rounds[1], FOUR, flags=EVIDENCE | PRICED)])
    core = ROUND.size + 8
    bare = (core + 8).to_bytes(4, "little") + rounds[1][4 : core + 8]
    with pytest.raises(StoreCorruptError):
        shape.rows([changed_round(bare, FOUR, flags=EVIDENCE | PRICED)])


def test_the_prices_of_a_waiting_prediction_are_those_of_its_round() -> None:
    shape, rounds = priced(DenseCodec(2))
    made = new_predictions(FOUR, [2] * 3, Contexts.dense(np.eye(3, 2)), np.ones((3, 1)))
    made = made._replace(parts=OptionalFields(MASK, (), (), PRICES, SOME_COSTS))
    (record,) = shape.encode_blocks(made, [0, 3], tokens_of([0, 3], ""), [bytes(16)])
    waiting = shape.waiting(record)
    assert waiting is not None
    assert waiting.rows.parts.prices.tobytes() == shape.rows(rounds).parts.prices.tobytes() == PRICES.tobytes()
    assert waiting.rows.parts.costs == SOME_COSTS


def test_actions_need_a_model_with_actions() -> None:
    parts = OptionalFields(np.ones((3, 0), np.bool_), (), (b"\0", b"x", b""))
    shape, rounds = played(DenseCodec(2), [2] * 3, parts=parts)
    with pytest.raises(NewerVersionError):
        shape.rows(rounds)

"""States as bytes: decoding is exact, and other bytes are refused."""

import contextlib
import json
from typing import Any

import numpy as np
import pydantic
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from learners import codec
from learners.base import AnyLearner, InvalidStateError, Problem
from learners.layouts import state_layout
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.contract.lives import PROBLEM, Life, has_layout, of_each_algorithm
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import LAWS, random_rounds


def test_state_survives_encoding_bit_for_bit(life: Life) -> None:
    data = codec.encode_state(life.learner, life.state)
    state = codec.decode_state(life.learner, data)
    assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)
    assert all(field.flags.owndata and field.flags.c_contiguous and field.flags.writeable for field in state)
    assert bits(life.learner.fold(state, life.rounds)) == bits(life.learner.fold(copied(life.state), life.rounds))
    assert data == codec.encode_state(life.learner, life.state)
    assert data == safetensors.numpy.save(life.state._asdict(), metadata={"learner": codec.identity(life.learner)})


def test_encoded_state_is_a_copy(life: Life) -> None:
    state = copied(life.state)
    data = codec.encode_state(life.learner, state)
    before = bytes(data)
    life.learner.fold(state, life.rounds)
    assert data == before


def test_state_of_another_learner_is_refused(life: Life) -> None:
    data = codec.encode_state(life.learner, life.state)
    others = [case.at(PROBLEM) for case in IMPLEMENTATIONS if case is not life.case]
    for problem in (Problem(4, 5, 2.0), Problem(5, 4)):
        with contextlib.suppress(pydantic.ValidationError):
            others.append(life.case.at(problem))
    for other in others:
        with pytest.raises(InvalidStateError):
            codec.decode_state(other, data)


def replaced(life: Life, name: str, array: Any) -> bytes:
    arrays = {**life.state._asdict(), name: array}
    kept = {key: np.array(value, order="C") for key, value in arrays.items() if value is not None}
    return safetensors.numpy.save(kept, metadata={"learner": codec.identity(life.learner)})


@of_each_algorithm
def test_wrong_arrays_are_refused(life: Life) -> None:
    for name, field in life.state._asdict().items():
        wrong: list[Any] = [
            None,
            np.zeros(field.shape, np.float32),
            np.zeros(field.shape, np.complex64),
            field[None],
            np.zeros((2, 3, 1)),
        ]
        layout = state_layout(life.learner)[name]
        if layout.most < np.inf:
            wrong += [np.full_like(field, layout.least - 1), np.full_like(field, layout.most + 1)]
        if field.dtype == np.float64:
            wrong += [np.where(np.arange(field.size).reshape(field.shape) == 0, bad, field) for bad in (np.nan, np.inf)]
        for array in wrong:
            with pytest.raises(InvalidStateError, match=name):
                codec.decode_state(life.learner, replaced(life, name, array))
    with pytest.raises(InvalidStateError, match="surplus"):
        codec.decode_state(life.learner, replaced(life, "surplus", np.zeros(2)))


@of_each_algorithm
def test_state_without_its_learner_is_refused(life: Life) -> None:
    arrays = {name: np.array(field, order="C") for name, field in life.state._asdict().items()}
    fields: dict[str, Any] = json.loads(codec.identity(life.learner))
    others = [{key: value for key, value in fields.items() if key != left_out} for left_out in fields]
    others += [fields | change for change in ({"momentum": 0.9}, {"algorithm": "other"})]
    texts = ["", "[]", "null", "1", "{", "[" * 100_000, '{"algorithm":null}', "{}", *map(json.dumps, others)]
    for metadata in (None, {}, {"format": "np"}, *({"learner": text} for text in texts)):
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, safetensors.numpy.save(arrays, metadata=metadata))


def test_decoded_states_stay_finite() -> None:
    for case in IMPLEMENTATIONS:
        learner, rounds = case.at(PROBLEM), random_rounds(1, 50, case.at(PROBLEM))
        for name, field in learner.init()._asdict().items():
            for value in (-1, 0, 2**62) if field.dtype == np.int64 else (-1, 0):
                state = learner.init()._replace(**{name: np.full_like(field, value)})
                try:
                    state = codec.decode_state(learner, codec.encode_state(learner, state))
                except InvalidStateError:
                    continue
                state = learner.fold(state, rounds)
                assert is_finite(state), (case, name, value)
                assert np.isfinite(learner.decide(state, rounds.contexts).distributions).all(), (case, name, value)


def check_decodes_or_refuses(learner: AnyLearner, data: bytes) -> None:
    with contextlib.suppress(InvalidStateError):
        state = codec.decode_state(learner, data)
        assert has_layout(learner, state)
        assert is_finite(state)


@of_each_algorithm
def test_truncated_bytes_are_refused(life: Life) -> None:
    data = bytes(codec.encode_state(life.learner, life.state))
    parts = [data[:size] for size in range(0, len(data), max(7, len(data) // 100))]
    for broken in (*parts, data[:-1], data + b"\0", data + data):
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, broken)


@of_each_algorithm
def test_mutated_bytes_are_decoded_or_refused(life: Life) -> None:
    whole = bytes(codec.encode_state(life.learner, life.state))
    edits = st.tuples(st.integers(0, len(whole)), st.integers(0, 3), st.binary(max_size=3))

    @LAWS
    @given(st.lists(edits, min_size=1, max_size=4))
    def check(changes: list[tuple[int, int, bytes]]) -> None:
        data = whole
        for position, removed, added in changes:
            data = data[:position] + added + data[position + removed :]
        check_decodes_or_refuses(life.learner, data)

    check()


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
NAMES = st.sampled_from(["dtype", "shape", "x"])
JSON = st.recursive(
    PLAIN | st.sampled_from([0, 8, 2**63, 2**64, "F4", "BF16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


UNKNOWN: list[dict[str, Any]] = [{"dtype": name, "shape": [0]} for name in ("F4", "F8_E4M3", "BF16")]
UNKNOWN += [{"dtype": "F64", "shape": shape} for shape in ([0, 2**63], [0] * 99)]


@pytest.mark.parametrize("entry", UNKNOWN, ids=str)
def test_arrays_unknown_to_numpy_are_refused(entry: dict[str, Any]) -> None:
    learner = IMPLEMENTATIONS[0].at(PROBLEM)
    whole = bytes(codec.encode_state(learner, learner.init()))
    end = 8 + int.from_bytes(whole[:8], "little")
    tail = len(whole) - end
    text = json.dumps({**json.loads(whole[8:end]), "new": {**entry, "data_offsets": [tail, tail]}}).encode()
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, len(text).to_bytes(8, "little") + text + whole[end:])


@of_each_algorithm
def test_mutated_headers_are_decoded_or_refused(life: Life) -> None:
    whole = bytes(codec.encode_state(life.learner, life.state))
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])

    @LAWS
    @given(st.sampled_from([*header, "new"]), st.sampled_from(["dtype", "shape", "data_offsets", "new", None]), JSON)
    def check(array: str, key: str | None, value: Any) -> None:
        entry = value if key is None else {**header.get(array, {}), key: value}
        text = json.dumps({**header, array: entry}).encode()
        check_decodes_or_refuses(life.learner, len(text).to_bytes(8, "little") + text + whole[end:])

    check()

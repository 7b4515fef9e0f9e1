"""States as bytes: decoding is exact, and only the learner that wrote a state can read it."""

import contextlib
from typing import Any

import numpy as np
import pydantic
import pytest
import safetensors.numpy

from learners import codec
from learners.base import InvalidStateError, Problem
from learners.layouts import state_layout
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.contract.lives import PROBLEM, Life
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import random_rounds


def test_state_survives_encoding_bit_for_bit(life: Life) -> None:
    """Decoding returns the encoded bits in fresh, writable arrays that can be folded into."""
    data = codec.encode_state(life.learner, life.state)
    state = codec.decode_state(life.learner, data)
    assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)
    assert all(field.flags.owndata and field.flags.c_contiguous and field.flags.writeable for field in state)
    assert bits(life.learner.fold(state, life.rounds)) == bits(life.learner.fold(copied(life.state), life.rounds))
    assert data == codec.encode_state(life.learner, life.state)
    assert data == safetensors.numpy.save(life.state._asdict(), metadata={"learner": codec.identity(life.learner)})


def test_encoded_state_is_a_copy(life: Life) -> None:
    """Later changes of the state do not change the encoded bytes."""
    state = copied(life.state)
    data = codec.encode_state(life.learner, state)
    before = bytes(data)
    life.learner.fold(state, life.rounds)
    assert data == before


def test_state_of_another_learner_is_refused(life: Life) -> None:
    """Only the same learner, with the same hyperparameters and problem, reads the bytes."""
    data = codec.encode_state(life.learner, life.state)
    others = [case.at(PROBLEM) for case in IMPLEMENTATIONS if case is not life.case]
    for problem in (Problem(4, 5, 2.0), Problem(5, 4)):
        with contextlib.suppress(pydantic.ValidationError):
            others.append(life.case.at(problem))
    for other in others:
        with pytest.raises(InvalidStateError):
            codec.decode_state(other, data)


def replaced(life: Life, name: str, array: Any) -> bytes:
    """Encode the state with one array replaced, added, or left out (None)."""
    arrays = {**life.state._asdict(), name: array}
    kept = {key: np.array(value, order="C") for key, value in arrays.items() if value is not None}
    return safetensors.numpy.save(kept, metadata={"learner": codec.identity(life.learner)})


def test_wrong_arrays_are_refused(life: Life) -> None:
    """A missing or extra array, another dtype or shape, a NaN or an infinity is refused by name."""
    for name, field in life.state._asdict().items():
        wrong: list[Any] = [
            None,
            np.zeros(field.shape, np.float32),
            np.zeros(field.shape, np.complex64),
            field[None],
            np.zeros((2, 3, 1)),
        ]
        if state_layout(life.learner)[name].most < np.inf:
            wrong += [np.full_like(field, -1), np.full_like(field, state_layout(life.learner)[name].most + 1)]
        if field.dtype == np.float64:
            wrong += [np.where(np.arange(field.size).reshape(field.shape) == 0, bad, field) for bad in (np.nan, np.inf)]
        for array in wrong:
            with pytest.raises(InvalidStateError, match=name):
                codec.decode_state(life.learner, replaced(life, name, array))
    with pytest.raises(InvalidStateError, match="surplus"):
        codec.decode_state(life.learner, replaced(life, "surplus", np.zeros(2)))


def test_state_without_its_learner_is_refused(life: Life) -> None:
    """Arrays without the identity of their learner are refused."""
    arrays = {name: np.array(field, order="C") for name, field in life.state._asdict().items()}
    for metadata in (None, {}, {"learner": "{}"}, {"format": "np"}):
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, safetensors.numpy.save(arrays, metadata=metadata))


def test_decoded_states_stay_finite() -> None:
    """A state that no run produces (counts, norms or diagonals out of range) is refused or stays finite."""
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

"""The laws of bytes from anywhere: decoded to a finite state, or refused with the one error."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners import codec
from learners.base import AnyLearner, InvalidStateError
from tests.learners.arrays import is_finite
from tests.learners.contract.lives import PROBLEM, Life, has_layout
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import LAWS


def check_decodes_or_refuses(learner: AnyLearner, data: bytes) -> None:
    """Decoding gives a finite state of the right layout, or `InvalidStateError`; nothing else is raised."""
    with contextlib.suppress(InvalidStateError):
        state = codec.decode_state(learner, data)
        assert has_layout(learner, state)
        assert is_finite(state)


def test_truncated_bytes_are_refused(life: Life) -> None:
    """No proper beginning of an encoded state is a state, and neither is one with a tail."""
    data = bytes(codec.encode_state(life.learner, life.state))
    for broken in [*(data[:size] for size in range(0, len(data), 7)), data[:-1], data + b"\0", data + data]:
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, broken)


def test_random_bytes_are_refused(life: Life) -> None:
    """Bytes from anywhere are refused with the one error, whatever length they claim for their header."""

    @LAWS
    @given(st.binary(max_size=200), st.integers(0, 2**64 - 1) | st.integers(0, 200))
    def check(body: bytes, header_size: int) -> None:
        for data in (body, header_size.to_bytes(8, "little") + body):
            with pytest.raises(InvalidStateError):
                codec.decode_state(life.learner, data)

    check()


def test_mutated_bytes_are_decoded_or_refused(life: Life) -> None:
    """A state with some bytes changed, cut out or put in is decoded to a finite state, or refused."""
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


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([0, 8, 2**63, 2**64, "F4", "BF16"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "shape", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(
    "entry",
    [
        *({"dtype": name, "shape": [0]} for name in ("F4", "F8_E4M3", "BF16")),
        *({"dtype": "F64", "shape": s} for s in ([0, 2**63], [0] * 99)),
    ],
    ids=str,
)
def test_arrays_unknown_to_numpy_are_refused(entry: dict[str, Any]) -> None:
    """An empty array that the format allows, of a type, size or rank that numpy does not, is no exception."""
    learner = IMPLEMENTATIONS[0].at(PROBLEM)
    whole = bytes(codec.encode_state(learner, learner.init()))
    end = 8 + int.from_bytes(whole[:8], "little")
    tail = len(whole) - end
    text = json.dumps({**json.loads(whole[8:end]), "new": {**entry, "data_offsets": [tail, tail]}}).encode()
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, len(text).to_bytes(8, "little") + text + whole[end:])


def test_mutated_headers_are_decoded_or_refused(life: Life) -> None:
    """A state whose header says anything else about an array is decoded to a finite state, or refused."""
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

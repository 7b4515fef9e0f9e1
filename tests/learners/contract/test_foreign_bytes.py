"""Arbitrary bytes decode to a finite state or raise `InvalidStateError`."""

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
    """Check that decoding gives a finite state of the right layout, or raises `InvalidStateError` and nothing else."""
    with contextlib.suppress(InvalidStateError):
        state = codec.decode_state(learner, data)
        assert has_layout(learner, state)
        assert is_finite(state)


def test_truncated_bytes_are_refused(life: Life) -> None:
    """A truncated state is refused, and so is one with trailing bytes."""
    data = bytes(codec.encode_state(life.learner, life.state))
    for broken in [*(data[:size] for size in range(0, len(data), 7)), data[:-1], data + b"\0", data + data]:
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, broken)


def test_random_bytes_are_refused(life: Life) -> None:
    """Random bytes raise `InvalidStateError`, whatever length they declare for their header."""

    @LAWS
    @given(st.binary(max_size=200), st.integers(0, 2**64 - 1) | st.integers(0, 200))
    def check(body: bytes, header_size: int) -> None:
        for data in (body, header_size.to_bytes(8, "little") + body):
            with pytest.raises(InvalidStateError):
                codec.decode_state(life.learner, data)

    check()


def test_mutated_bytes_are_decoded_or_refused(life: Life) -> None:
    """A state with bytes changed, removed or inserted decodes to a finite state or is refused."""
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
    """An empty array that the format allows, but whose type, size or rank numpy cannot hold, is refused."""
    learner = IMPLEMENTATIONS[0].at(PROBLEM)
    whole = bytes(codec.encode_state(learner, learner.init()))
    end = 8 + int.from_bytes(whole[:8], "little")
    tail = len(whole) - end
    text = json.dumps({**json.loads(whole[8:end]), "new": {**entry, "data_offsets": [tail, tail]}}).encode()
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, len(text).to_bytes(8, "little") + text + whole[end:])


def test_mutated_headers_are_decoded_or_refused(life: Life) -> None:
    """A state whose header describes an array wrongly decodes to a finite state or is refused."""
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

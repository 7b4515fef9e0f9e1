"""Encodes states as safetensors, a documented format that cannot contain code.

The header contains the algorithm, the problem and the hyperparameters, so that no other learner can load the state.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pydantic

from learners.base import AnyLearner, InvalidStateError, State
from learners.layouts import ArrayLayout, check_rows, state_layout

_IN_ORDER = [np.dtype("<i8"), np.dtype("<f8")]
"""The dtypes of state arrays, in the order in which safetensors lays them out."""


@runtime_checkable
class Composite(Protocol):
    """A learner whose state contains that of another learner."""

    @property
    def base_learner(self) -> AnyLearner:
        """The other learner."""

    def base_state(self, state: State) -> State:
        """Return the state of the other learner, as views of `state`."""


_OF_CODE: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8"), "F64": np.dtype("<f8"), "U8": np.dtype("u1")}


def identity(learner: AnyLearner) -> str:
    """Return the algorithm, problem and hyperparameters of a learner as one canonical JSON string."""
    fields = pydantic.TypeAdapter(type(learner)).dump_python(learner, mode="json")
    return json.dumps({"algorithm": learner.algorithm, **fields}, sort_keys=True, separators=(",", ":"))


def encode_state(learner: AnyLearner, state: State) -> memoryview:
    """Return the state as a safetensors file, with the bytes that the library would write while holding the GIL."""
    arrays = sorted(state._asdict().items(), key=lambda item: (_IN_ORDER.index(item[1].dtype), item[0]))
    header = _header(identity(learner), arrays)
    file = np.empty(len(header) + sum(array.nbytes for _, array in arrays), np.uint8)
    file[: len(header)] = np.frombuffer(header, np.uint8)
    start = len(header)
    for _, array in arrays:
        np.copyto(file[start : start + array.nbytes].view(array.dtype).reshape(array.shape), array)
        start += array.nbytes
    return file.data


def _header(learner: str, arrays: Sequence[tuple[str, np.ndarray[Any, Any]]]) -> bytes:
    """Return the header: its length in 8 bytes, then JSON padded with spaces to a multiple of 8 bytes."""
    fields: dict[str, Any] = {"__metadata__": {"learner": learner}}
    start = 0
    for name, array in arrays:
        code = f"{array.dtype.kind}{8 * array.dtype.itemsize}".upper()
        fields[name] = {"dtype": code, "shape": array.shape, "data_offsets": (start, start + array.nbytes)}
        start += array.nbytes
    text = json.dumps(fields, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text


def decode_state(learner: AnyLearner, data: bytes | memoryview, others: str | None = None) -> State:
    """Return the state that `encode_state` wrote, in newly allocated arrays.

    The file may also have arrays whose names begin with `others`, which are ignored.

    Raises `InvalidStateError` if the bytes are not such a file, belong to another learner, lack an array, or contain
    an array with a wrong name, dtype or shape, or with numbers that are not finite or out of range.
    """
    arrays, metadata = _read(data)
    if not isinstance(metadata, dict) or metadata.get("learner") != identity(learner):
        raise InvalidStateError("the state belongs to another learner or other hyperparameters")
    layouts = state_layout(learner)
    arrays = {name: array for name, array in arrays.items() if others is None or not name.startswith(others)}
    for name, layout in layouts.items():
        _check_array(name, arrays.get(name), layout)
    if len(arrays) != len(learner.state_type._fields):
        raise InvalidStateError(f"unknown arrays: {sorted(set(arrays) - set(layouts))}")
    check_rows(arrays, layouts)
    state = learner.state_type(**{name: np.array(array, order="C") for name, array in arrays.items()})
    if isinstance(learner, Composite):  # its layout does not describe the arrays of the other learner
        base = learner.base_state(state)._asdict()
        for name, layout in state_layout(learner.base_learner).items():
            _check_array(name, base[name], layout)
    return state


def _read(data: bytes | memoryview) -> tuple[dict[str, np.ndarray[Any, Any]], Any]:
    """Return a file's arrays as views, and its metadata; the library would copy twice without releasing the GIL."""
    try:
        length = int.from_bytes(data[:8], "little")
        fields = dict(json.loads(bytes(data[8 : 8 + length])))
        body = np.frombuffer(data, np.uint8)[8 + length :]
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidStateError("not a safetensors file: its header cannot be read") from error
    metadata = fields.pop("__metadata__", None)
    arrays = {name: _array(name, body, field) for name, field in fields.items()}
    if sum(array.nbytes for array in arrays.values()) != len(body):
        raise InvalidStateError("not a safetensors file: its arrays do not fill it")
    return arrays, metadata


def _array(name: str, body: npt.NDArray[np.uint8], field: Any) -> np.ndarray[Any, Any]:
    try:
        start, stop = field["data_offsets"]
        if not 0 <= start <= stop <= len(body):
            raise ValueError("the array lies outside the file")
        return body[start:stop].view(_OF_CODE[field["dtype"]]).reshape(tuple(field["shape"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InvalidStateError(f"{name} cannot be read: {error}") from error


def _check_array(name: str, array: Any, layout: ArrayLayout) -> None:
    if array is None:
        raise InvalidStateError(f"{name} is missing")
    if not layout.fits(array):
        raise InvalidStateError(f"{name} is {array.dtype}{array.shape}, not {layout}")
    if not np.isfinite(array).all():
        raise InvalidStateError(f"{name} contains numbers that are not finite")
    if (array < layout.least).any():
        raise InvalidStateError(f"{name} contains numbers below {layout.least:g}")
    if (array > layout.most).any():
        raise InvalidStateError(f"{name} contains numbers above {layout.most:g}")

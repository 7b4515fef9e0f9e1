"""States as bytes: safetensors, a documented format without code in it.

The header names algorithm and hyperparameters, so that a state is never read into another learner.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic
import safetensors
import safetensors.numpy

from learners.base import AnyLearner, ArrayLayout, InvalidStateError, state_layout


def identity(learner: AnyLearner) -> str:
    """Algorithm, problem and hyperparameters of a learner as one canonical JSON string."""
    fields = pydantic.TypeAdapter(type(learner)).dump_python(learner, mode="json")
    return json.dumps({"algorithm": learner.algorithm, **fields}, sort_keys=True, separators=(",", ":"))


def encode_state(learner: AnyLearner, state: Any) -> bytes:
    """The learner's state as a safetensors file."""
    return safetensors.numpy.save(state._asdict(), metadata={"learner": identity(learner)})


def decode_state(learner: AnyLearner, data: bytes) -> Any:
    """The state that `encode_state` wrote, in arrays of its own.

    Raises:
        InvalidStateError: if the bytes are no safetensors file, belong to another learner, or hold arrays of
            another name, dtype or shape, or numbers that are not finite.
    """
    arrays = _read(data)
    if _metadata(data).get("learner") != identity(learner):
        raise InvalidStateError("the state belongs to another learner or other hyperparameters")
    for name, layout in state_layout(learner).items():
        _check_array(name, arrays.get(name), layout)
    if len(arrays) != len(learner.state_type._fields):
        raise InvalidStateError(f"unknown arrays: {sorted(set(arrays) - set(state_layout(learner)))}")
    return learner.state_type(**{name: np.array(array, order="C") for name, array in arrays.items()})


def _read(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InvalidStateError(f"not a safetensors file: {error}") from error


def _metadata(data: bytes) -> Mapping[str, str]:
    # safetensors reads metadata from files only; the header is eight bytes of length and then JSON.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__", {})
    return metadata if isinstance(metadata, dict) else {}


def _check_array(name: str, array: Any, layout: ArrayLayout) -> None:
    if array is None:
        raise InvalidStateError(f"{name} is missing")
    if array.dtype != layout.dtype or array.shape != layout.shape:
        raise InvalidStateError(f"{name} is {array.dtype}{array.shape}, not {layout.dtype}{layout.shape}")
    if not np.isfinite(array).all():
        raise InvalidStateError(f"{name} holds numbers that are not finite")
    if (array < layout.least).any():
        raise InvalidStateError(f"{name} holds numbers below {layout.least:g}")
    if (array > layout.most).any():
        raise InvalidStateError(f"{name} holds numbers above {layout.most:g}")

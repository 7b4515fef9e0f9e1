"""Checks of what compiled code relies on in contexts: shapes, dtypes, finite values, and indices within range."""

from typing import Any

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray, IntArray, InvalidArrayError
from learners.kernels import compiled, compiled_sum

INT, FLOAT, BOOL = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)

_ANY_FEATURE = 2**62

_FEW_INDICES = 40
"""Up to this many indices, comparing all pairs is faster than sorting."""

_CONTEXT_FAULTS = (
    "",
    "starts: must begin with 0, not decrease, and end with the number of values",
    "values: every number must be finite",
    "indices: must be 0 … d-1 where all rows share them, each row with d values",
    "indices: must have as many entries as values",
    "indices: must be from 0 to d-1",
    "indices: must be distinct within a context",
)
_, _STARTS, _FINITE, _SHARED, _COUNT, _RANGE, _TWICE = range(len(_CONTEXT_FAULTS))


def check_contexts(contexts: Contexts, n_features: int = _ANY_FEATURE) -> None:
    """Refuse contexts unless each has n_features features, finite values, and every feature at most once.

    Raises:
        InvalidArrayError: if they are invalid; the message names the field.
    """
    if type(contexts) is not Contexts:
        raise InvalidArrayError(f"contexts: must be Contexts, not {type(contexts).__name__}")
    starts, indices, values, shared = contexts
    expect_array("contexts.starts", starts, INT, 1)
    expect_array("contexts.indices", indices, INT, 1)
    expect_array("contexts.values", values, FLOAT, 1)
    if not isinstance(shared, bool | np.bool_):
        raise InvalidArrayError("contexts.shared: must be True or False")
    fault, where = _context_fault(contexts, n_features)
    if fault:
        size = "" if n_features == _ANY_FEATURE else f", d = {n_features}"
        raise InvalidArrayError(f"contexts.{_CONTEXT_FAULTS[fault]} (context {where}{size})")


@compiled
def _context_fault(contexts: Contexts, n_features: int) -> tuple[int, int]:
    """Return the first fault and the context that has it; fault 0 means none."""
    starts, indices, values, shared = contexts
    if not _are_starts(starts, len(values)):
        return _STARTS, 0
    if _nothing_but_zeros(values) != 0.0:
        return _FINITE, _row_of_first_not_finite(starts, values)
    if shared:
        return _shared_fault(starts, indices, len(indices) if n_features == _ANY_FEATURE else n_features)
    if len(indices) != len(values):
        return _COUNT, 0
    # The contexts use each feature once on average: an array of all features then costs less than sorting each context.
    last = np.full(n_features if n_features <= len(indices) else 0, -1)
    for i in range(len(starts) - 1):
        entries = indices[starts[i] : starts[i + 1]]
        fault = _row_fault_by_feature(entries, i, last) if len(last) > 0 else _row_fault(entries, n_features)
        if fault:
            return fault, i
    return 0, 0


@compiled
def _row_fault_by_feature(indices: IntArray, i: int, last: IntArray) -> int:
    """Do the same as `_row_fault` for context i, without sorting; keep the last context with each feature, (d,)."""
    twice = False
    for index in indices:
        if index < 0 or index >= len(last):
            return _RANGE
        twice |= last[index] == i
        last[index] = i
    return _TWICE if twice else 0


@compiled
def _are_starts(starts: IntArray, n_values: int) -> bool:
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != n_values:
        return False
    falls = 0
    for i in range(len(starts) - 1):
        falls += starts[i + 1] < starts[i]
    return falls == 0


@compiled_sum
def _nothing_but_zeros(values: FloatArray) -> float:
    """Return 0 if every number is finite, else NaN."""
    total = 0.0
    for j in range(len(values)):  # only a loop over indices is vectorized
        total += values[j] * 0.0
    return total


@compiled
def _row_of_first_not_finite(starts: IntArray, values: FloatArray) -> int:
    for i in range(len(starts) - 1):
        for value in values[starts[i] : starts[i + 1]]:
            if not np.isfinite(value):
                return i
    return 0


@compiled
def _shared_fault(starts: IntArray, indices: IntArray, d: int) -> tuple[int, int]:
    if len(indices) != d:
        return _SHARED, 0
    for j in range(d):
        if indices[j] != j:
            return _SHARED, 0
    for i in range(len(starts) - 1):
        if starts[i + 1] - starts[i] != d:
            return _SHARED, i
    return 0, 0


@compiled
def _row_fault(indices: IntArray, n_features: int) -> int:
    before, ordered = -1, True
    for index in indices:
        if index < 0 or index >= n_features:
            return _RANGE
        ordered = ordered and index > before
        before = index
    return _TWICE if not ordered and _has_twice(indices) else 0


@compiled
def _has_twice(indices: IntArray) -> bool:
    if len(indices) > _FEW_INDICES:
        sorted_indices = np.sort(indices)
        return bool((sorted_indices[1:] == sorted_indices[:-1]).any())
    twice = 0
    for j in range(len(indices)):
        for k in range(j):
            twice += indices[j] == indices[k]
    return twice > 0


def expect_array(
    name: str, array: npt.NDArray[Any], dtype: np.dtype[Any], ndim: int, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse anything but an array of this dtype, number of dimensions and, if given, shape.

    Raises:
        InvalidArrayError: if the array differs; the message starts with the name.
    """
    if type(array) is not np.ndarray:
        raise InvalidArrayError(f"{name}: must be an array, not {type(array).__name__}")
    if array.dtype != dtype or array.ndim != ndim:
        raise InvalidArrayError(f"{name}: must have {ndim} dimensions of {dtype}, not {array.ndim} of {array.dtype}")
    if shape is not None and array.shape != shape:
        raise InvalidArrayError(f"{name}: must have the shape {shape}, not {array.shape}")

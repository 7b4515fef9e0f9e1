"""Reads tables of features: lists, numpy arrays, data frames and sparse matrices, recognized by their methods."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray

_NUMERIC = "biuf"
"""The kinds of dtypes that hold real numbers."""


class Table(NamedTuple):
    """Features of n rows."""

    contexts: Contexts  # n rows
    n_features: int  # d
    names: tuple[str, ...] | None  # the names of the columns, if all of them are strings


def read_table(X: Any) -> Table:
    """Return the features of a list of rows, an array, a data frame, or a sparse matrix, as new arrays.

    Args:
        X: n rows of d numbers. A data frame has `columns` and `to_numpy`, as in pandas; a sparse matrix has `tocsr`, as
            in scipy.

    Raises:
        ValueError: if it is empty, has not two dimensions, or holds anything but finite real numbers.
    """
    if hasattr(X, "tocsr"):
        return _sparse(X)
    names = _names(X)
    matrix = _numbers(_as_matrix(X), names)
    _check_size(matrix.shape)
    return Table(Contexts.dense(matrix), matrix.shape[1], names)


def _sparse(X: Any) -> Table:
    if len(X.shape) != 2:
        raise ValueError(f"Expected 2D array, got a sparse array of shape {X.shape} instead. Reshape your data.")
    _check_size(X.shape)
    _check_dtype(X.dtype, "a sparse matrix")
    rows = X.tocsr(copy=True)
    rows.sum_duplicates()
    starts, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    values = rows.data.astype(np.float64)[: starts[-1]]
    _check_finite(values)
    return Table(Contexts(starts, indices[: starts[-1]], values, False), X.shape[1], None)


def as_array(name: str, given: Any, rule: str = "must hold numbers or labels") -> npt.NDArray[Any]:
    """Return what numpy makes of an argument; anything but a list, a series or an array has no dimensions then.

    Args:
        name: how errors call the argument.
        given: the argument.
        rule: what the argument must be, for errors.

    Raises:
        ValueError: if numpy cannot read it, or if values are masked, as those below a mask are not meant to be read.
    """
    rows = given if isinstance(given, list | tuple) else (given,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise ValueError(f"{name} has masked values; every value must be known, so leave the rows out, or fill them")
    try:
        return np.asarray(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {rule} ({error})") from error


def _as_matrix(X: Any) -> npt.NDArray[Any]:
    is_frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    array = as_array("X", X.to_numpy() if is_frame else X, "the rows must have the same number of features, all real")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: each row is one context, "
            "X.reshape(1, -1) is a single one"
        )
    return array


def _names(X: Any) -> tuple[str, ...] | None:
    columns = list(X.columns) if hasattr(X, "columns") else []
    return tuple(columns) if columns and all(isinstance(name, str) for name in columns) else None


def _numbers(array: npt.NDArray[Any], names: tuple[str, ...] | None) -> FloatArray:
    """Return an array (n, d) as float64, new and in C order."""
    if array.dtype == object:
        array = _of_objects(array, names)
    _check_dtype(array.dtype, "X")
    numbers: FloatArray = np.array(array, np.float64, order="C")
    _check_finite(numbers)
    return numbers


def _of_objects(array: npt.NDArray[Any], names: tuple[str, ...] | None) -> FloatArray:
    """Convert an array of Python objects, column by column, so that an error can name the column."""
    numbers = np.empty(array.shape)
    for j in range(array.shape[1]):
        column = array[:, j]
        where = f"column {names[j]!r}" if names else f"column {j}"
        wrong = next((value for value in column if isinstance(value, str | bytes | complex)), None)
        if wrong is not None:
            raise ValueError(f"X: {where} has {wrong!r}; must be a real number, so encode strings as numbers first")
        try:
            numbers[:, j] = column.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"X: {where} must hold numbers: {error}") from error
    return numbers


def _check_dtype(dtype: Any, what: str) -> None:
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has the dtype {dtype}")
    if dtype.kind not in _NUMERIC:
        raise ValueError(f"{what} has the dtype {dtype}; must be real numbers, so encode strings as numbers first")


def _check_size(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def _check_finite(values: FloatArray) -> None:
    wrong = values[~np.isfinite(values)]
    if wrong.size:
        found = "NaN" if np.isnan(wrong).any() else "infinity or a value too large for float64"
        raise ValueError(f"Input X contains {found}; every number must be finite")


def take(contexts: Contexts, order: npt.NDArray[np.int64]) -> Contexts:
    """Return the contexts at some places, as new arrays.

    Args:
        contexts: n contexts.
        order: (m,), from 0 to n - 1, in any order, also repeatedly.
    """
    starts, indices, values, shared = contexts
    lengths = np.diff(starts)[order]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(ends[-1]) + np.repeat(starts[:-1][order] - ends[:-1], lengths)
    return Contexts(ends, indices.copy() if shared else indices[places], values[places], shared)

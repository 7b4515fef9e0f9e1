"""Reads the arguments of estimators: tables of features, labels (strings, integers, booleans), and feedback.

Data frames and sparse matrices are recognized by their methods; numpy converts everything else.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import NO_LABEL, AnyLearner, BoolArray, Contexts, FloatArray, IntArray, Rounds, State, every_label
from learners.mathematics.preparation import one_by_one

_NUMERIC = "biuf"  # the kinds of dtypes for real numbers


class Table(NamedTuple):
    """Features of n rows."""

    contexts: Contexts  # n rows
    n_features: int  # d
    names: tuple[str, ...] | None  # the names of the columns, if all of them are strings


def read_table(X: object) -> Table:
    """Read n rows of d finite numbers from any kind of table into new arrays. Raises `ValueError` for other values."""
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


def as_array(name: str, given: object, rule: str = "must hold numbers or labels") -> npt.NDArray[Any]:
    """Convert an argument to a numpy array; anything but a sequence or array becomes an array without dimensions.

    Raises `ValueError` with the name if values are masked, or with the name and the rule if numpy cannot convert it.
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


def _names(X: object) -> tuple[str, ...] | None:
    columns = list(X.columns) if hasattr(X, "columns") else []
    return tuple(columns) if columns and all(isinstance(name, str) for name in columns) else None


def _numbers(array: npt.NDArray[Any], names: tuple[str, ...] | None) -> FloatArray:
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
    """Return the contexts at given places (m,), in any order and possibly repeated, as new arrays."""
    starts, indices, values, shared = contexts
    lengths = np.diff(starts)[order]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(ends[-1]) + np.repeat(starts[:-1][order] - ends[:-1], lengths)
    return Contexts(ends, indices.copy() if shared else indices[places], values[places], shared)


AnyArray = npt.NDArray[Any]


def read_labels(name: str, labels: object, n: int | None = None) -> AnyArray:
    """Return n labels, any number if n is None. Raises `ValueError` unless they are strings, booleans or integers."""
    if labels is None:
        raise ValueError(f"{name} is None; {name} should be a 1d array of labels")
    array = as_array(name, labels)
    if array.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got an array of shape {array.shape} instead.")
    if n is not None and len(array) != n:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {n}, {name} {len(array)}")
    _check_values(name, array)
    return array


def _check_values(name: str, array: AnyArray) -> None:
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError(f"Input {name} contains NaN or infinity; every label must be known")
        fraction = array[array != np.floor(array)]
        if fraction.size:
            raise ValueError(f"Unknown label type: continuous. {name} has {fraction[0]!s}; labels must be classes")
    elif array.dtype.kind == "O":
        wrong = next((value for value in array if not isinstance(value, str | bool | int | np.integer | np.bool_)), "")
        if wrong != "" or len({isinstance(value, str) for value in array}) > 1:
            shown = f"{wrong!r}" if wrong != "" else "strings and numbers"
            raise ValueError(
                f"Unknown label type: {name} has {shown} among its labels; must be all strings, all integers or all "
                "booleans, and NaN or None is none of them"
            )
    elif array.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: {name} has the dtype {array.dtype}; must be strings, integers or bools")


def sorted_classes(name: str, labels: object) -> AnyArray:
    """Return the K different labels, sorted, (K,). Raises `ValueError` if there are fewer than two."""
    classes: AnyArray = np.unique(read_labels(name, labels))
    if len(classes) < 2:
        only = classes.tolist()
        raise ValueError(f"{name}: at least 2 different classes are needed; got {len(only)} class: {only}")
    return classes


def numbered(name: str, labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the place of each label among the classes, (n,). Raises a `ValueError` that names one that is not."""
    places = {value: place for place, value in enumerate(classes.tolist())}
    found = np.fromiter((places.get(value, -1) for value in labels.tolist()), np.int64, len(labels))
    if (found < 0).any():
        wrong, known = labels[found < 0].tolist()[0], classes.tolist()
        listed = ", ".join(map(repr, known[:10])) + (", …" if len(known) > 10 else "")
        raise ValueError(f"{name} has the unknown class {wrong!r}; the classes are {listed}")
    return found


def read_column(name: str, given: object, n: int) -> FloatArray:
    """Return n finite numbers as float64. Raises `ValueError`, which begins with the name, for anything else."""
    array = as_array(name, given)
    if array.dtype == object and array.ndim == 1:
        array = np.array([value if isinstance(value, bool | int | float | np.generic) else np.nan for value in array])
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: must be {n} numbers, one for each row, not {array.dtype} of shape {array.shape}")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}: every number must be finite")
    return numbers


def read_rewards(name: str, given: object, n: int) -> FloatArray:
    """Return n rewards from 0 to 1; booleans count as 1 and 0. Raises `ValueError` if they are anything else."""
    rewards = read_column(name, given, n)
    return _valid(name, rewards, (rewards >= 0.0) & (rewards <= 1.0), "from 0 to 1")


def read_bits(name: str, given: object, n: int) -> FloatArray:
    """Return n booleans, or numbers that are 0 or 1, as floats. Raises `ValueError` for anything else."""
    bits = read_column(name, given, n)
    return _valid(name, bits, (bits == 0.0) | (bits == 1.0), "True or False, or 1 or 0; `rewards` takes fractions")


def read_propensities(given: object, n: int) -> FloatArray:
    """Return n propensities above 0 and at most 1. Raises `ValueError` if they are anything else."""
    propensities = read_column("propensities", given, n)
    return _valid("propensities", propensities, (propensities > 0.0) & (propensities <= 1.0), "above 0 and at most 1")


def _valid(name: str, numbers: FloatArray, valid: BoolArray, rule: str) -> FloatArray:
    if not valid.all():
        raise ValueError(f"{name}: got {numbers[~valid][0]:g}; must be {rule}")
    return numbers


def check_feedback(learner: AnyLearner, rewards: FloatArray, truths: IntArray | None) -> None:
    """Raise `ValueError` if the learner needs missing true labels, or refuses fractional rewards that are given."""
    if learner.needs_true_label and truths is None:
        raise ValueError(f"true_labels: missing; {learner.algorithm} with these hyperparameters learns from them")
    if not learner.accepts_rewards and ((rewards != 0.0) & (rewards != 1.0)).any():
        raise ValueError(f"rewards: {learner.algorithm} learns from right or wrong; must be 0 or 1")


def rounds_of(
    contexts: Contexts,
    labels: IntArray,
    propensities: FloatArray,
    rewards: FloatArray,
    truths: IntArray | None,
    evidence: FloatArray,
    residual_uniforms: FloatArray,
) -> Rounds:
    """Return rounds in which every label was eligible; the arguments are fields of `Rounds`. Truths may be None."""
    n = len(labels)
    known = np.full(n, NO_LABEL) if truths is None else truths
    columns = (labels, propensities, rewards == 1.0, known, evidence, residual_uniforms, rewards)
    return Rounds(contexts, *columns, every_label(n))


def fold_logged(learner: AnyLearner, state: State, rounds: Rounds) -> State:
    """Fold rounds that lack evidence: decide each just before it is folded, and use the evidence of that decision.

    The state may be changed in place: use the returned one.
    """
    if learner.evidence_size == 0:
        return learner.fold(state, rounds)
    for t, context in enumerate(one_by_one(rounds.contexts)):
        evidence = learner.decide(state, context).evidence
        state = learner.fold(state, rounds.rows(t, t + 1)._replace(contexts=context, evidence=evidence))
    return state

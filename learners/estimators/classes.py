"""Reads labels of any type, and numbers them by the sorted classes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from learners.base import IntArray
from learners.estimators.inputs import as_array

AnyArray = npt.NDArray[Any]


def read_labels(name: str, labels: Any, n: int | None = None) -> AnyArray:
    """Return labels as an array (n,) of strings, integers, booleans or whole floats.

    Args:
        name: how errors call them, such as `y`.
        labels: a list, an array or a series.
        n: how many there must be; any number if None.

    Raises:
        ValueError: if they are not, or if a value is missing.
    """
    if labels is None:
        raise ValueError(f"BanditClassifier requires {name} to be passed, but the target {name} is None")
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


def sorted_classes(name: str, labels: Any) -> AnyArray:
    """Return the K different labels in order, (K,).

    Raises:
        ValueError: if there are fewer than two.
    """
    classes: AnyArray = np.unique(read_labels(name, labels))
    if len(classes) < 2:
        only = classes.tolist()
        raise ValueError(f"{name}: at least 2 different classes are needed; got {len(only)} class: {only}")
    return classes


def numbered(name: str, labels: AnyArray, classes: AnyArray) -> IntArray:
    """Return the place of each label among the classes, (n,).

    Raises:
        ValueError: if a label is not one of them; the message names the first.
    """
    places = {value: place for place, value in enumerate(classes.tolist())}
    found = np.fromiter((places.get(value, -1) for value in labels.tolist()), np.int64, len(labels))
    if (found < 0).any():
        wrong, known = labels[found < 0].tolist()[0], classes.tolist()
        listed = ", ".join(map(repr, known[:10])) + (", …" if len(known) > 10 else "")
        raise ValueError(f"{name} has the unknown class {wrong!r}; the classes are {listed}")
    return found

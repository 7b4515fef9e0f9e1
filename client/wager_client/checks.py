"""Checks of callers' arguments.

They raise `TypeError` for a wrong type and `ValueError` for a wrong value. Both messages name the argument.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

_LONGEST = 100  # characters of a value in an error message


def wrong(name: str, given: object, expected: str) -> TypeError:
    """Return the error for an argument of an unexpected type."""
    return TypeError(f"{name}: got {shown(given)}; must be {expected}")


def shown(given: object) -> str:
    """Return a value as text for an error message, shortened if it is long."""
    text = repr(given)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def text(name: str, given: object, expected: str) -> str:
    """Return a non-empty string unchanged. Raises `TypeError` for other types, `ValueError` if it is empty."""
    if not isinstance(given, str):
        raise wrong(name, given, expected)
    if not given:
        raise ValueError(f"{name}: got ''; must be {expected}")
    return given


def model_name(given: object) -> str:
    """Return the name of a model unchanged. Raises the errors of `text`."""
    return text("model", given, "the name of a model")


def number(name: str, given: object, least: float, *, above: bool = False) -> None:
    """Check for a finite number ≥ `least`, or with `above` > `least`. Raises `TypeError` or `ValueError`."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, "a number")
    try:
        value = float(given)
    except OverflowError:
        raise ValueError(f"{name}: got a number beyond floating point") from None
    if not math.isfinite(value):
        raise ValueError(f"{name}: got {given!r}; must be finite")
    if not (value > least if above else value >= least):
        raise ValueError(f"{name}: got {given!r}; must be {'greater than' if above else 'at least'} {least}")


def whole(name: str, given: object, least: int) -> None:
    """Check that a value is an integer, and at least `least`. Raises the errors of `number`."""
    if not isinstance(given, Integral):
        raise wrong(name, given, "an integer")
    number(name, given, least)


def mapping(name: str, given: object) -> Mapping[str, Any]:
    """Return a mapping unchanged. Raises `TypeError` for other types."""
    if not isinstance(given, Mapping):
        raise wrong(name, given, "a dictionary")
    return given


def items(name: str, given: object, expected: str) -> list[Any]:
    """Return a batch as a list. Raises `TypeError` for strings, bytes, mappings and values that are not iterable."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise wrong(name, given, f"a list of {expected}")
    return list(given)


def default(given: object) -> None:
    """Check the caller's default answer: a label, labels in order, or None. Raises the errors of `text`."""
    expected = "a label, or with `top` a list of labels"
    labels = [given] if given is None or isinstance(given, str) else given  # None is allowed, [None] is not
    if not isinstance(labels, Sequence) or not all(each is given or isinstance(each, str) for each in labels):
        raise wrong("default", given, expected)
    if not labels or "" in labels:
        raise ValueError(f"default: got {shown(given)}; must be {expected}")

"""Reads JSON into dataclasses. Unknown fields are ignored, so that answers of newer services can be read."""

import types
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from wager_client.errors import UnexpectedAnswerError

_T = TypeVar("_T")


def read(kind: type[_T], given: Any, **more: Any) -> _T:
    """Return a dataclass from a JSON object.

    Args:
        kind: a dataclass. A field `raw` gets the whole object.
        given: the object.
        more: values of fields that the object does not have.

    Raises:
        UnexpectedAnswerError: if it is no object, or lacks a required field, or a field has the wrong type.
    """
    if not isinstance(given, Mapping):
        raise UnexpectedAnswerError(f"got {str(given)[:100]!r} for a {kind.__name__}; must be an object")
    try:
        return kind(**_values(kind, given), **more)
    except (TypeError, ValueError) as error:
        raise UnexpectedAnswerError(f"cannot read a {kind.__name__}: {error}") from error


def _values(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (hint, required) in _hints(cast(Hashable, kind)).items():
        if name == "raw":
            values[name] = given
        elif name in given:
            values[name] = _value_of(hint, given[name])
        elif required:
            raise ValueError(f"{name} is missing")
    return values


@cache
def _hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field that JSON may have, and whether it is required."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
        if not each.metadata.get("local")
    }


def _value_of(hint: Any, given: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # X | None
        return None if given is None else _value_of(arguments[0], given)
    if given is None and hint is not Any:
        raise ValueError("a value is null")
    if origin is tuple:
        return tuple(_value_of(arguments[0], each) for each in given)
    if hint is datetime:
        return datetime.fromisoformat(given)
    if hint is float and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    if hasattr(hint, "__dataclass_fields__"):
        return read(hint, given)
    if hint is not Any and isinstance(hint, type) and not isinstance(given, hint):
        raise TypeError(f"got {given!r}; must be {hint.__name__}")
    return given

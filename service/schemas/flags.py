"""Schemas of the policies of flags: the values of labels, and how OpenFeature clients evaluate the model."""

import json
from itertools import chain
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from service.error_messages.values import shown
from service.schemas.rules import RuleName
from service.strict_body import Body

_MOST_VALUES = 1_000  # maximum labels with a value
_MOST_BYTES = 65_536  # maximum bytes of all values, as JSON
_MOST_LEVELS = 16  # maximum levels of objects and lists in a value
_MOST_MEMBERS = 1_000  # maximum members of an object in a value
_LARGEST = 2**53  # JavaScript reads larger integers inexactly
LONGEST_STICKY = 30 * 86_400.0  # seconds

_WORDS: dict[type, str] = {bool: "boolean", str: "string", int: "number", float: "number", dict: "object"}


def json_type(value: object) -> str:
    """Return the type of a flag's value, as OpenFeature names it; empty for null and lists, which no flag answers."""
    return _WORDS.get(type(value), "")


def _checked(value: Any) -> Any:
    if not json_type(value):
        message = "got {given}; must be true, false, a string, a number or an object"
        raise PydanticCustomError("flag_value_type", message, {"given": shown(value)})
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        for part in level:
            _check_part(part)
        objects = [
            each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))
        ]
        if not (level := list(chain.from_iterable(objects))):
            return value
    raise PydanticCustomError("flag_value", f"has more than {_MOST_LEVELS} levels of objects and lists")


def _check_part(part: object) -> None:
    """Check an object or a number in a value; the sizes of objects are limited as in large bodies."""
    if isinstance(part, dict) and len(part) > _MOST_MEMBERS:
        message = "has an object with {size} members; must have at most {most}"
        raise PydanticCustomError("flag_value", message, {"size": f"{len(part):,}", "most": f"{_MOST_MEMBERS:,}"})
    if type(part) is float and not isfinite(part):
        raise PydanticCustomError("flag_value", "got NaN or an infinity; a number must be finite")
    if type(part) is int and abs(part) > _LARGEST:
        message = "got {given}; an integer must be between -2^53 and 2^53"
        raise PydanticCustomError("flag_value", message, {"given": shown(part)})


def _alike(values: dict[str, Any]) -> dict[str, Any]:
    """Check the size of the values. If one is a fraction, return all numbers as fractions: clients ask for one type."""
    if (size := len(json.dumps(values, ensure_ascii=False).encode())) > _MOST_BYTES:
        message = "got {size} bytes of JSON; must be at most {most}"
        raise PydanticCustomError("too_long_values", message, {"size": f"{size:,}", "most": f"{_MOST_BYTES:,}"})
    if float not in map(type, values.values()):
        return values
    return {label: float(value) if type(value) is int else value for label, value in values.items()}


_TYPES = ("boolean", "string", "number", "object")
Value = Annotated[Any, AfterValidator(_checked), WithJsonSchema({"anyOf": [{"type": each} for each in _TYPES]})]
Values = Annotated[dict[RuleName, Value], Field(max_length=_MOST_VALUES), AfterValidator(_alike)]


class Ofrep(Body):
    """How OpenFeature clients evaluate the model."""

    bulk: bool = False
    """Whether the evaluation of all flags, which browsers request, includes this one."""
    sticky_seconds: Annotated[float, Field(ge=0, le=LONGEST_STICKY)] = 1.0
    """How long repeated evaluations with the same targeting key and context return the same prediction, at most
    `window_seconds`. With 0, each evaluation is a new prediction, and needs no targeting key."""

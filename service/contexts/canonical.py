"""The canonical form of JSON values, for comparing requests: equal numbers have one form, and members are sorted."""

import json
from typing import Any


def canonical(value: object) -> bytes:
    """Return bytes that are equal exactly for equal JSON values; `1` equals `1.0`, and `0` equals `-0.0`."""
    return json.dumps(_with_floats(value), sort_keys=True).encode()


def _with_floats(value: Any) -> Any:
    kind = type(value)
    if kind is float or (kind is int and float(value) == value):
        return float(value) + 0.0  # -0.0 + 0.0 is 0.0
    if kind is dict:
        return {name: _with_floats(each) for name, each in value.items()}
    if kind is list:
        return [_with_floats(each) for each in value]
    return value

"""Compares recorded exchanges with others."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from tests.recordings.exchanges import Recorded

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Tolerances of floats: another processor may give other last digits, also to a difference of two equal numbers."""

_GENERATED = re.compile(r"(rec-\d+)(?::(\d+))?")
_PLACES = 2**16

_MOST_SHOWN = 30
_WIDTH = 160


def differences(expected: Any, got: Any, path: str = "") -> Iterator[str]:
    if type(expected) is not type(got):
        yield f"{path}: expected {_short(expected)}, got {_short(got)}"
    elif isinstance(expected, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            here = f"{path}.{name}" if path else name
            yield from differences(expected.get(name, MISSING), got.get(name, MISSING), here)
    elif isinstance(expected, list):
        if len(expected) != len(got):
            yield f"{path}: expected {len(expected)} items, got {len(got)}"
        for number, (one, other) in enumerate(zip(expected, got, strict=False)):
            yield from differences(one, other, f"{path}[{number}]")
    elif not _alike(expected, got):
        yield f"{path}: expected {_short(expected)}, got {_short(got)}"


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""The place of a member that only the other object has."""


def _alike(expected: Any, got: Any) -> bool:
    if isinstance(expected, float):
        return math.isclose(expected, got, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(expected == got)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}... ({len(text)} characters)"


def report(title: str, expected: Sequence[Recorded], got: Sequence[Recorded]) -> str:
    lines = list(islice(_lines(title, expected, got), _MOST_SHOWN + 1))
    return "\n".join([*lines[:_MOST_SHOWN], *(["..."] if len(lines) > _MOST_SHOWN else [])])


def _renumbered(exchanges: Sequence[Recorded]) -> Sequence[Recorded]:
    numbers: dict[str, int] = {}

    def renumber(found: re.Match[str]) -> str:
        number, place = numbers.setdefault(found[1], len(numbers)), found[2]
        return f"id-{number}" if place is None else f"id-{number}:{int(place) % _PLACES}"

    text = json.dumps(exchanges)
    renumbered: Sequence[Recorded] = json.loads(_GENERATED.sub(renumber, text))
    return renumbered


def _lines(title: str, expected: Sequence[Recorded], got: Sequence[Recorded]) -> Iterator[str]:
    expected, got = _renumbered(expected), _renumbered(got)
    for one, other in zip(expected, got, strict=False):
        for difference in differences(one, other):
            yield f"{title} {one['number']}, {one['request']}: {difference}"
    if len(expected) != len(got):
        yield f"{title}: expected {len(expected)} exchanges, got {len(got)}"

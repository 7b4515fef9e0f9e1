"""Formats JSON values for errors: short, on one line, without control characters."""

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

MOST_CHARACTERS = 60  # maximum characters of a text that an error shows

_MOST_DIGITS, _MOST_ITEMS, _MOST_NAMES = 20, 5, 3


def shown(value: object) -> str:
    """Return a JSON value as short text: long strings are cut; objects, long lists and long integers are summarized."""
    match value:
        case str():
            return quoted(value)
        case bool() | float() | None:
            return json.dumps(value)
        case int():
            digits = str(value)
            return digits if len(digits) <= _MOST_DIGITS else f"an integer of {len(digits.lstrip('-'))} digits"
        case list():
            return _list(value)
        case dict():
            return _object(value)
    return "a value of another type"


def quoted(text: str) -> str:
    """Return a text in double quotes, shortened; quotes, backslashes and unprintable characters are escaped."""
    start = text[:MOST_CHARACTERS]
    plain = start.isprintable() and '"' not in start and "\\" not in start
    escaped = start if plain else "".join(map(_escaped, start))
    return f'"{escaped}"' if len(text) <= MOST_CHARACTERS else f'"{escaped}…" ({len(text)} characters)'


def _escaped(character: str) -> str:
    plain = character.isprintable() and character not in '"\\'
    return character if plain else json.dumps(character)[1:-1]


def _list(value: Sequence[object]) -> str:
    if not value:
        return "an empty list"
    if len(value) <= _MOST_ITEMS and not any(isinstance(item, (list, dict)) for item in value):
        text = f"[{', '.join(map(shown, value))}]"
        if len(text) <= MOST_CHARACTERS:
            return text
    return f"a list of {len(value)} item{'s' * (len(value) > 1)}"


def _object(value: dict[object, object]) -> str:
    if not value:
        return "an empty object"
    names = [quoted(str(name)) for name in islice(value, _MOST_NAMES)]
    more = len(value) - len(names)
    return f"an object with {joined([*names, *([f'{more} more'] if more else [])], 'and')}"


def counted(count: int, nouns: str, noun: str = "") -> str:
    """Return a number and a noun, such as `1 label` or `2,000 labels`. `noun` is an irregular singular."""
    return f"{count:,} {(noun or nouns[:-1]) if count == 1 else nouns}"


def joined(parts: Iterable[str], word: str) -> str:
    """Return the parts as an enumeration, such as `a, b or c`."""
    *first, last = parts
    return f"{', '.join(first)} {word} {last}" if first else last


@lru_cache(maxsize=256)
def choices(given: str, known: tuple[str, ...], what: str) -> str:
    """List the known texts after `what`; begin with a suggestion if the given text resembles one of them."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), by_lower, 1) if len(given) <= MOST_CHARACTERS else []
    listed = f"{what}: {', '.join(known)}"
    return f"did you mean {quoted(by_lower[close[0]])}? {listed[0].upper()}{listed[1:]}" if close else listed

"""Explains why a body is not JSON."""

import re

_EXPECTED = {
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a member's name in double quotes",
    "Expecting ':' delimiter": "expected a colon after the member's name",
    "Expecting ',' delimiter": "expected a comma or the end of the list or object",
    "Extra data": "expected the end of the body, found more text",
    "Unterminated string starting at": "the string has no closing quote; it begins",
    "Invalid control character at": "a string contains an unescaped control character",
    "Invalid \\escape": "a string contains an unknown escape",
    "Invalid \\uXXXX escape": "a \\u escape needs four hexadecimal digits",
    "Illegal trailing comma": "expected no comma before a closing bracket",
}
"""The service's wording, by the beginning of the message of Python's parser. Python 3.13 added the last message."""


def syntax_error(message: str, position: int) -> str:
    """Explain a syntax error that Python's parser reports at a character position."""
    expected = next((words for start, words in _EXPECTED.items() if message.startswith(start)), "the syntax is wrong")
    return f"{expected} at character {position}"


def unreadable(error: BaseException | None) -> str:
    """Explain why a body cannot be read as JSON, if the reason is not its syntax."""
    match error:
        case UnicodeDecodeError():
            if bytes(error.object[:2]) == b"\x1f\x8b":  # gzip
                return "it is compressed with gzip; send it uncompressed"
            return f"it is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}"
        case HalfPairError():
            return f"a \\u escape is half of a surrogate pair at character {error.position}"
        case RecursionError():
            return "its lists and objects are nested too deeply"
        case ValueError():
            return "it contains an integer with more than 4300 digits"
    return "it cannot be parsed"


_ESCAPE = re.compile(
    rb"""\\(?:
        u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # a pair
        | (?P<half>u[dD][89a-fA-F])
        | .)""",
    re.DOTALL | re.VERBOSE,
)


class HalfPairError(ValueError):
    """JSON text has half of a surrogate pair at the character `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(f"half of a surrogate pair at character {position}")
        self.position = position


def check_pairs(body: bytes) -> None:
    """Raise HalfPairError if an escape is half of a surrogate pair, which Python's parser accepts."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return
    half = next((found.start() for found in _ESCAPE.finditer(body) if found["half"]), None)
    if half is not None:
        raise HalfPairError(len(body[:half].decode()))

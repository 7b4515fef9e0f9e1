"""Escapes in JSON that are half of a surrogate pair, which UTF-8 cannot encode (RFC 8259, section 8.2)."""

import re

_ESCAPE = re.compile(
    rb"""\\(?:
        u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}  # a pair
        | (?P<half>u[dD][89a-fA-F])
        | .)""",
    re.DOTALL | re.VERBOSE,
)


class HalfPairError(ValueError):
    """JSON contains half of a surrogate pair.

    Attributes:
        position: the index of the escape's first character.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"half of a surrogate pair at character {position}")
        self.position = position


def check_pairs(body: bytes) -> None:
    """Check that no escape in JSON is half of a surrogate pair. Python's parser accepts them, all others refuse them.

    Args:
        body: JSON in UTF-8.

    Raises:
        HalfPairError: if one is.
    """
    if b"\\ud" not in body and b"\\uD" not in body:
        return
    half = next((found.start() for found in _ESCAPE.finditer(body) if found["half"]), None)
    if half is not None:
        raise HalfPairError(len(body[:half].decode()))

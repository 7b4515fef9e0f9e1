"""What feedback said of a prediction, as its block and its round keep it."""

import struct
from typing import NamedTuple

from service.errors import StoreCorruptError

_OUTCOME = struct.Struct("<Bdq")
"""correct u8, feedback_at f64, round i64; the truth follows, every bit 1 where it is unknown."""


class Outcome(NamedTuple):
    """What feedback said, and the number of the round it made."""

    correct: bool
    feedback_at: float
    round: int
    truth: bytes | None


def decode_outcomes(data: bytes, n: int) -> list[Outcome]:
    """The n outcomes that the reply to feedback carries, of one length.

    Raises:
        StoreCorruptError: if they are none.
    """
    size, rest = divmod(len(data), n) if n else (0, len(data))
    if rest or (n and size <= _OUTCOME.size):
        raise StoreCorruptError("an outcome has an unknown format")
    form = struct.Struct(f"{_OUTCOME.format}{size - _OUTCOME.size}s") if n else _OUTCOME
    unknown = b"\xff" * (size - _OUTCOME.size)
    return [
        Outcome(bool(correct), feedback_at, number, None if truth == unknown else truth)
        for correct, feedback_at, number, truth in form.iter_unpack(data)
    ]

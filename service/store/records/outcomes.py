"""What feedback said of a prediction, as its block and its round keep it."""

from typing import Any, NamedTuple

from service.errors import StoreCorruptError
from service.store.records import format_3, layout
from service.store.records.layout import Layout


class Outcome(NamedTuple):
    """What feedback said, and the number of the round it made."""

    correct: bool
    feedback_at: float
    round: int
    truth: bytes | None


def decode_outcomes(data: bytes, n: int, version: int = layout.VERSION) -> list[Outcome]:
    """Return the n outcomes that the reply to feedback carries, of one length.

    Args:
        data: the outcomes, which the store has verified.
        n: how many.
        version: of the records.

    Raises:
        StoreCorruptError: if they are none.
    """
    if version == format_3.VERSION:
        rows = _rows(format_3.OUTCOME, data, n)
        return [Outcome(bool(correct), at, number, _known(truth)) for correct, at, number, truth in rows]
    rows = _rows(layout.OUTCOME, data, n)
    return [Outcome(reward == 1.0, at, number, _known(truth)) for _, _, reward, at, number, truth in rows]


def _rows(outcome: Layout, data: bytes, n: int) -> list[tuple[Any, ...]]:
    size, rest = divmod(len(data), n) if n else (0, len(data))
    if rest or (n and size <= outcome.size):
        raise StoreCorruptError("an outcome has an unknown format")
    return list(outcome.struct(size - outcome.size).iter_unpack(data)) if n else []


def _known(truth: bytes) -> bytes | None:
    return None if truth == b"\xff" * len(truth) else truth

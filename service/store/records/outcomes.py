"""The outcomes of predictions, as stored in blocks and rounds."""

from typing import Any, NamedTuple

from service.errors import StoreCorruptError
from service.store.records import format_3, layout
from service.store.records.layout import Layout
from service.tuples import named_tuples


class Outcome(NamedTuple):
    """The content of feedback, and the number of the round it created."""

    reward: float  # from 0 to 1
    feedback_at: float  # seconds since the epoch
    round: int  # 0 if the feedback waits for the window to close
    truth: bytes | None  # None if unknown

    @property
    def correct(self) -> bool | None:
        """Whether the answer was right; None if the reward is neither 0 nor 1."""
        return bit_of(self.reward)


def bit_of(reward: float) -> bool | None:
    """Return a reward of 0 or 1 as a bit, and None for others."""
    return reward == 1.0 if reward in (0.0, 1.0) else None


def decode_outcomes(data: bytes, n: int, version: int = layout.VERSION) -> list[Outcome]:
    """Decode the n outcomes in the store's reply to feedback. All have the same length.

    Args:
        data: the joined outcomes, already verified by the store.
        n: the number of outcomes.
        version: the version of the records.

    Raises:
        StoreCorruptError: if the length of `data` does not fit n outcomes.
    """
    if version == format_3.VERSION:
        rows = _rows(format_3.OUTCOME, data, n)
        return [Outcome(float(correct), at, number, _known(truth)) for correct, at, number, truth in rows]
    rows = _rows(layout.OUTCOME, data, n)
    unknown = b"\xff" * len(rows[0][-1]) if rows else b""
    made = [(reward, at, number, None if truth == unknown else truth) for _, _, reward, at, number, truth in rows]
    return named_tuples(Outcome, made)


def _rows(outcome: Layout, data: bytes, n: int) -> list[tuple[Any, ...]]:
    size, rest = divmod(len(data), n) if n else (0, len(data))
    if rest or (n and size <= outcome.size):
        raise StoreCorruptError("an outcome has an unknown format")
    return list(outcome.struct(size - outcome.size).iter_unpack(data)) if n else []


def _known(truth: bytes) -> bytes | None:
    return None if truth == b"\xff" * len(truth) else truth

"""The outcomes of predictions, as stored in blocks and rounds."""

from typing import NamedTuple

from service.errors import StoreCorruptError
from service.store.records.layout import OUTCOME
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


def decode_outcomes(data: bytes, n: int) -> list[Outcome]:
    """Decode the n outcomes in the store's reply to feedback. All have the same length.

    Args:
        data: the joined outcomes, already verified by the store.
        n: the number of outcomes.

    Raises:
        StoreCorruptError: if the length of `data` does not fit n outcomes.
    """
    size, rest = divmod(len(data), n) if n else (0, len(data))
    if rest or (n and size <= OUTCOME.size):
        raise StoreCorruptError("an outcome has an unknown format")
    if not n:
        return []
    unknown = b"\xff" * (size - OUTCOME.size)
    rows = OUTCOME.struct(size - OUTCOME.size).iter_unpack(data)
    made = [(reward, at, number, None if truth == unknown else truth) for _, _, reward, at, number, truth in rows]
    return named_tuples(Outcome, made)

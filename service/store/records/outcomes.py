"""The outcomes of predictions, and the valid ranges of the numbers in a prediction."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.records.codecs import AnswerArray, AnswerCodec
from service.store.records.layout import OUTCOME
from service.tuples import named_tuples


class Outcome(NamedTuple):
    """The feedback of a prediction, and the number of its round."""

    reward: float  # from 0 to 1
    feedback_at: float  # seconds since the epoch
    round: int  # 0 if the feedback waits for the window to close
    truth: bytes | None  # encoded; None if unknown

    @property
    def correct(self) -> bool | None:
        """Whether the answer was right; None if the reward is neither 0 nor 1."""
        return bit_of(self.reward)

    @property
    def abstained(self) -> bool:
        """Whether the answer was an abstention, which is neither right nor wrong."""
        return self.truth is not None and self.correct is None


def bit_of(reward: float) -> bool | None:
    """Return True for reward 1, False for reward 0, None for others."""
    return reward == 1.0 if reward in (0.0, 1.0) else None


def abstentions(rewards: FloatArray, truths: AnswerArray) -> BoolArray:
    """Return the mask (n,) of abstentions: answers with a reward between 0 and 1 whose true label is known.

    Args:
        rewards: (n,).
        truths: (n,), the numbers of the true labels; NO_LABEL if unknown.
    """
    return np.asarray((rewards > 0.0) & (rewards < 1.0) & (truths != NO_LABEL))


def decode_outcomes(data: bytes, n: int) -> list[Outcome]:
    """Decode n outcomes of equal length from the store's reply to feedback.

    Args:
        data: the joined outcomes, already verified by the store.
        n: the number of outcomes.

    Raises:
        StoreCorruptError: if `data` does not have the length of n outcomes.
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


LATEST = 253_402_300_800.0
"""Exclusive upper bound of moments, in seconds since the epoch: the year 10000, which `datetime` cannot represent."""

MOST_ROUNDS = 2**53
"""Maximum rounds in a log, because the store's scripts count in float64."""


class Numbers(NamedTuple):
    """The numbers of n predictions."""

    outputs: AnswerArray  # (n, ...), the answers in the stored dtype
    propensities: FloatArray  # (n,)
    residual_uniforms: FloatArray  # (n,)
    evidence: FloatArray  # (n, E)
    contexts: Contexts
    moments: tuple[FloatArray, ...]  # (n,) or (1,) each, in seconds since the epoch


def faults(form: AnswerCodec, numbers: Numbers) -> list[str]:
    """Return the names of the columns that contain an invalid number; `form` is the codec of the outputs."""
    return [name for name, mask in _columns(form, numbers) if not holds(mask)]


def holds(mask: BoolArray) -> bool:
    """Check whether a mask (n,) is true everywhere. For a few rows, this takes a tenth of the time of `mask.all()`."""
    return all(mask.tolist())


def _columns(form: AnswerCodec, numbers: Numbers) -> Iterator[tuple[str, BoolArray]]:
    outputs, p, residual_uniforms, evidence, contexts, moments = numbers
    yield "output", form.possible(outputs)
    yield "propensity", (p > 0.0) & (p <= 1.0)
    yield "residual_uniform", (residual_uniforms >= 0.0) & (residual_uniforms < 1.0)
    yield "evidence", np.logical_and.reduce(np.isfinite(evidence), axis=1)
    yield "context", _finite_rows(contexts)
    for moment in moments:
        yield "moment", (moment >= 0.0) & (moment < LATEST)


def _finite_rows(contexts: Contexts) -> BoolArray:
    finite, rows = np.isfinite(contexts.values), np.full(contexts.n, True)
    if not np.logical_and.reduce(finite):
        rows[np.searchsorted(contexts.starts, np.flatnonzero(~finite), side="right") - 1] = False
    return rows

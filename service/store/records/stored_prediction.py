"""Stored predictions without their bodies."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.records.answer_codec import AnswerCodec
from service.store.records.round_table import Table
from service.store.records.soundness import Numbers, faults


class StoredPrediction(NamedTuple):
    """The part of m predictions of one request that stays stored until it is deleted, open or closed."""

    fingerprint: bytes  # 16 bytes, of the context sent; zeros if the service generated the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (m,)
    outputs: npt.NDArray[Any]  # (m, ...), the answers


def stored_prediction(
    answers: AnswerCodec, predictions: Table, fingerprint: bytes, expires_at: float, rounds_seen: int
) -> StoredPrediction:
    """Return the predictions of a block.

    Args:
        answers: the codec of the answers.
        predictions: the rows of the block.
        fingerprint: of its request.
        expires_at: the end of its window.
        rounds_seen: when it was made.

    Raises:
        StoreCorruptError: if a number is invalid.
    """
    output, p, none = predictions["output"], predictions["propensity"], np.zeros((len(predictions), 0))
    numbers = Numbers(output, p, np.zeros(len(predictions)), none, Contexts.dense(none), (np.full(1, expires_at),))
    if wrong := faults(answers, numbers):
        raise StoreCorruptError(f"a prediction's record has an impossible {wrong[0]}")
    return StoredPrediction(fingerprint, expires_at, rounds_seen, p, output)

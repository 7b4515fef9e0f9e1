"""A stored prediction without its body."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.records.answer_codec import AnswerCodec
from service.store.records.round_table import Table
from service.store.records.soundness import Numbers, faults


class StoredPrediction(NamedTuple):
    """The part of a prediction that stays stored until it is deleted, open or closed."""

    fingerprint: bytes  # 16 bytes, of the context sent; zeros if the service generated the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (1,), 0 if too small for a float64
    outputs: npt.NDArray[Any]  # (1, ...), the answer


def single_prediction(
    answers: AnswerCodec, predictions: Table, fingerprint: bytes, expires_at: float, rounds_seen: int
) -> StoredPrediction | None:
    """Return the prediction of a block; None if the service generated the block's id and it has several predictions.

    Raises:
        StoreCorruptError: if a block with a client's id has several predictions, or a number is invalid.
    """
    if len(predictions) > 1 and fingerprint == bytes(16):
        return None
    if len(predictions) != 1:
        raise StoreCorruptError("a prediction's record belongs to another model")
    output, p, none = predictions["output"], predictions["propensity"], np.zeros((1, 0))
    numbers = Numbers(output, p, np.zeros(1), none, Contexts.dense(none), (expires_at,))
    if wrong := faults(answers, numbers):
        raise StoreCorruptError(f"a prediction's record has an impossible {wrong[0]}")
    return StoredPrediction(fingerprint, expires_at, rounds_seen, p, output)

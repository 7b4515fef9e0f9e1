"""What is kept of a prediction until it is forgotten."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray
from service.errors import StoreCorruptError
from service.store.records.answer_codec import AnswerCodec
from service.store.records.round_table import Table
from service.store.records.soundness import Numbers, faults


class StoredPrediction(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (1,), 0 where it is too small for a float64
    outputs: npt.NDArray[Any]  # (1, ...), the answer


def single_prediction(
    answers: AnswerCodec, predictions: Table, fingerprint: bytes, expires_at: float, rounds_seen: int
) -> StoredPrediction | None:
    """Return the prediction of a block; None if the service named the block and it keeps several.

    Raises:
        StoreCorruptError: if it keeps several under a client's id, or one of its numbers is impossible.
    """
    if len(predictions) > 1 and fingerprint == bytes(16):
        return None
    if len(predictions) != 1:
        raise StoreCorruptError("a prediction's record is of another model")
    output, p, none = predictions["output"], predictions["propensity"], np.zeros((1, 0))
    numbers = Numbers(output, p, np.zeros(1), none, Contexts.dense(none), (expires_at,))
    if wrong := faults(answers, numbers):
        raise StoreCorruptError(f"a prediction's record holds an impossible {wrong[0]}")
    return StoredPrediction(fingerprint, expires_at, rounds_seen, p, output)

"""What is kept of a prediction until it is forgotten."""

from typing import Any, NamedTuple

import numpy.typing as npt

from learners.base import FloatArray


class StoredPrediction(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (1,), 0 where it is too small for a float64
    outputs: npt.NDArray[Any]  # (1, ...), the answer

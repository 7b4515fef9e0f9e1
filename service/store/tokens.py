"""The tokens that tell the predictions of one block apart, which nobody guesses."""

import hashlib
from collections.abc import Sequence

import numpy as np

from learners.base import IntArray
from service.prediction_id import SINGLE

_PLACE_BITS = 16
"""The lowest of a token: the place in the block; the other 32 are noise."""

MOST_TOKENS = 2 ** (32 + _PLACE_BITS)


def tokens_of(bounds: Sequence[int], secret: str) -> IntArray:
    """Return the tokens of n predictions in blocks, (n,).

    Args:
        bounds: where each block begins, and n.
        secret: from which the noise is made; of no other use.
    """
    n, sizes = bounds[-1], np.diff(bounds)
    noise = np.frombuffer(hashlib.shake_128(secret.encode()).digest(4 * n), "<u4").astype(np.int64)
    places = np.arange(n) - np.repeat(bounds[:-1], sizes)
    return np.where(np.repeat(sizes, sizes) == 1, SINGLE, noise << _PLACE_BITS | places)

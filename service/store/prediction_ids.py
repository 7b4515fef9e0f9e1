"""The ids of predictions: a block's own where it keeps one, else also a token, which nobody guesses.

A block that the service names begins with `~`, and one that a client names never does.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from learners.base import IntArray

OWN = "~"
"""What the names that the service gives begin with."""

SINGLE = -1
"""The token of a prediction that has its block to itself."""

_NO_TOKEN = -2
"""No prediction has it."""

_PLACE_BITS = 16
"""The lowest of a token: the place in the block; the other 32 are noise."""

MOST_TOKENS = 2 ** (32 + _PLACE_BITS)
_TOKEN_DIGITS = len(str(MOST_TOKENS))


def tokens_of(bounds: Sequence[int], secret: str) -> IntArray:
    """The tokens of n predictions in blocks.

    Args:
        bounds: where each block begins, and n.
        secret: from which the noise is made; of no other use.
    """
    n, sizes = bounds[-1], np.diff(bounds)
    if len(sizes) == n:
        return np.full(n, SINGLE)
    noise = np.frombuffer(hashlib.shake_128(secret.encode()).digest(4 * n), "<u4").astype(np.int64)
    places = np.arange(n) - np.repeat(bounds[:-1], sizes)
    return np.where(np.repeat(sizes, sizes) == 1, SINGLE, noise << _PLACE_BITS | places)


def ids_in(block: str, tokens: Iterable[int]) -> list[str]:
    """The ids of predictions of a block."""
    return [block if token == SINGLE else f"{block}:{token}" for token in tokens]


def id_of(block: str, token: int) -> str:
    """The id of one prediction of a block."""
    return ids_in(block, [token])[0]


def token_of(prediction_id: str) -> tuple[str, int]:
    """The block that a prediction is in, and its token; of what is no id, one that no prediction has."""
    block, colon, token = prediction_id.partition(":")
    if not colon:
        return block, SINGLE
    plain = len(token) <= _TOKEN_DIGITS and token.isascii() and token.isdecimal()
    return block, int(token) if plain else _NO_TOKEN

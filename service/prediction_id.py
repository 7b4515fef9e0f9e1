"""The id of a prediction: its model, the block that stores it, and its token in that block.

Block names that the service generates begin with `~`; block names that clients choose never do.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, IntArray

OWN = "~"
"""Prefix of the block names that the service generates."""

STICKY = "~of-"
"""Prefix of the names of blocks that repeated evaluations of a flag share."""

SINGLE = -1
"""The token of a prediction that is alone in its block; the wire form omits it."""

_PLACE_BITS = 16
"""Number of low bits of a token that contain its position in the block. The 32 bits above are noise."""

MOST_TOKENS = 2 ** (32 + _PLACE_BITS)
"""Exclusive upper bound of tokens."""


def wire_form(model: str, block: str, token: int) -> str:
    """Return an id in its wire form: `<model>:<block>`, or `<model>:<block>:<token>`."""
    return f"{model}:{block}" if token == SINGLE else f"{model}:{block}:{token}"


def wire_forms(model: str, block: str, tokens: Sequence[int]) -> list[str]:
    """Return the wire forms of the ids of one block."""
    if SINGLE in tokens:
        return [f"{model}:{block}"]  # the block has one prediction
    begin = f"{model}:{block}:"
    return [begin + token for token in map(str, tokens)]


class PredictionId(NamedTuple):
    """A parsed id. `str` returns its wire form."""

    model: str
    block: str
    token: int = SINGLE

    @classmethod
    def parse(cls, text: str) -> "PredictionId":
        """Parse a wire form that `service.schemas.rounds` has validated."""
        model, _, own = text.partition(":")
        block, _, token = own.partition(":")
        return tuple.__new__(cls, (model, block, int(token) if token else SINGLE))  # twice as fast as `cls(...)`

    def __str__(self) -> str:
        """Return the wire form."""
        return wire_form(*self)


def tokens_of(bounds: Sequence[int], secret: str) -> list[int]:
    """Return the tokens of n predictions in blocks.

    Args:
        bounds: the index of the first prediction of each block, in order, then n.
        secret: seed of the noise; do not use it for anything else.
    """
    noise = np.frombuffer(hashlib.shake_128(secret.encode()).digest(4 * bounds[-1]), "<u4").astype(np.int64)
    tokens: IntArray = noise << _PLACE_BITS
    for start, stop in pairwise(bounds):
        tokens[start:stop] = SINGLE if stop - start == 1 else tokens[start:stop] | np.arange(stop - start)
    return list(tokens.tolist())


def are_first_answers(tokens: IntArray) -> BoolArray:
    """Return which of n predictions, (n,), are the first or the only answer to their request.

    The answers to one request, in order, have the tokens 0, 1, 2 and so on, without noise.
    """
    return np.asarray((tokens <= 0) | (tokens >= 2**_PLACE_BITS))

"""The id of a prediction: its model, the block that keeps it, and its token in that block.

A block that the service names begins with `~`, and one that a client names never does.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from learners.base import IntArray

OWN = "~"
"""What the names that the service gives begin with."""

SINGLE = -1
"""The token of a prediction that has its block to itself."""

_PLACE_BITS = 16
"""The lowest bits of a token: the place in the block; the other 32 are noise."""

MOST_TOKENS = 2 ** (32 + _PLACE_BITS)
"""Above every token."""


def wire_form(model: str, block: str, token: int) -> str:
    """Return an id as clients know it: `<model>:<block>`, or `<model>:<block>:<token>`."""
    return f"{model}:{block}" if token == SINGLE else f"{model}:{block}:{token}"


class PredictionId(NamedTuple):
    """The id as a value; `str` gives its wire form."""

    model: str
    block: str
    token: int = SINGLE

    @classmethod
    def parse(cls, text: str) -> "PredictionId":
        """Return the id of a wire form, which is as `service.schemas.ids` demands."""
        model, _, own = text.partition(":")
        block, _, token = own.partition(":")
        return tuple.__new__(cls, (model, block, int(token) if token else SINGLE))  # half the time of `cls(...)`

    def __str__(self) -> str:
        """Return the wire form."""
        return wire_form(*self)


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

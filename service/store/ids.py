"""The ids of predictions: a block's own where it keeps one, else also the place in it."""

from collections.abc import Sequence

SINGLE = -1
"""The place of a prediction that has its block to itself."""


def ids_in(block: str, n: int) -> Sequence[str]:
    """The ids of the n predictions of a block."""
    return [block] if n == 1 else [f"{block}:{place}" for place in range(n)]


def id_of(block: str, place: int) -> str:
    """The id of the prediction at that place, or `SINGLE`, of a block."""
    return block if place == SINGLE else f"{block}:{place}"


def place_of(prediction_id: str) -> tuple[str, int]:
    """The block that a prediction is in, and its place there."""
    block, colon, place = prediction_id.partition(":")
    return block, int(place) if colon else SINGLE

"""The id of a prediction: its model, the block that keeps it, and its token in that block.

A block that the service names begins with `~`, and one that a client names never does.
"""

from typing import NamedTuple

OWN = "~"
"""What the names that the service gives begin with."""

SINGLE = -1
"""The token of a prediction that has its block to itself."""


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

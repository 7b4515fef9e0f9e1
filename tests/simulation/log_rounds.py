"""Rounds and predictions as the truth knows them."""

from itertools import pairwise
from typing import NamedTuple

from service.store.values import ChangeEntry, LogEntry

Own = tuple[str, int]
"""A prediction of a model: its block and its token."""

Asked = tuple[float, ...]
"""The context of a request."""

Position = tuple[int, int]
"""Numbers of rounds and changes in a log."""


class ViolationError(Exception):
    """A promise is broken."""


class Round(NamedTuple):
    """A round of the log."""

    own: Own
    reward: float
    is_expired: bool


class Stored(NamedTuple):
    """A stored prediction."""

    context: Asked
    output: bytes
    label: str
    propensity: float
    price: bytes
    expires_at: float
    rounds_seen: int
    changes_seen: int
    digest: bytes  # of the model's history up to these changes
    moment: int  # see `histories`


def split(payload: bytes) -> list[bytes]:
    """Split the rounds of an entry by their lengths."""
    bounds = [0]
    while bounds[-1] < len(payload):
        bounds.append(bounds[-1] + int.from_bytes(payload[bounds[-1] : bounds[-1] + 4], "little"))
    return [payload[start:stop] for start, stop in pairwise(bounds)]


def end_of(entry: LogEntry | ChangeEntry) -> Position:
    """Return the position after an entry."""
    return (entry.round_count if isinstance(entry, ChangeEntry) else entry.last_round), entry.change_count

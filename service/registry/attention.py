"""Decides which models need attention, and which of them need it most."""

from typing import NamedTuple

from service.analytics.overviews import TROUBLES, Overview
from service.store.stored_models import ListedModel

LARGE_LAG = 10_000
"""Rounds that published statistics may lack: those of five seconds, after which workers publish, at 2,000 a second."""

WORST = 0.0
"""The rank of a model that cannot be read."""


class Attention(NamedTuple):
    """How urgently a model needs attention, and why."""

    rank: float  # the lowest is the worst
    reason: str | None  # one sentence or more; None if the model needs none


NOT_NEEDED = Attention(9.0, None)


def attention_of(listed: ListedModel, overview: Overview) -> Attention:
    """Return how urgently a readable model needs attention."""
    if listed.damaged:
        return Attention(1.0, f"The model continues without {_rounds(listed.damaged)} that cannot be read.")
    if overview.verdict in TROUBLES:
        return Attention(2.0 + TROUBLES.index(overview.verdict), overview.reason)
    lag = listed.round_count - overview.rounds
    if lag > LARGE_LAG:
        return Attention(8.0, f"The statistics do not count the last {_rounds(lag)} yet.")
    return NOT_NEEDED


def _rounds(n: int) -> str:
    return "1 round" if n == 1 else f"{n:,} rounds"

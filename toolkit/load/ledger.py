"""The rounds of one load generator and their progress, in two bytes per round."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np


class Stage(IntEnum):
    """The progress of a round, as observed by its generator."""

    UNSENT = 0
    ASKED = 1
    """The prediction was requested, but no response confirms it."""
    ANSWERED = 2
    """The prediction is known; no feedback was sent."""
    FEEDBACK_SENT = 3
    """Feedback was sent, but no response confirms it."""
    ACKNOWLEDGED = 4
    PREDICTION_REFUSED = 5
    FEEDBACK_REFUSED = 6


OPEN = (Stage.ASKED, Stage.ANSWERED, Stage.FEEDBACK_SENT)
"""The stages of rounds that still need a prediction or feedback."""
PREDICTED = (Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)  # the prediction is known


class Ledger:
    """The stage of each round, and whether its prediction was right."""

    def __init__(self) -> None:
        self.stages = bytearray()
        self.correct = bytearray()

    def add(self, n: int) -> range:
        """Begin n rounds and return their numbers."""
        first = len(self.stages)
        self.stages.extend(bytes(n))
        self.correct.extend(bytes(n))
        return range(first, first + n)

    def advance(self, rounds: Sequence[int], since: Stage, to: Stage) -> None:
        """Move the rounds at the stage `since` to the stage `to`; do not change the others."""
        for each in rounds:
            if self.stages[each] == since:
                self.stages[each] = to

    def count(self, *stages: Stage) -> int:
        """Return the number of rounds that are at one of the given stages."""
        return sum(map(self.stages.count, stages))

    def at(self, *stages: Stage) -> np.ndarray:
        """Return the mask (n,) of the rounds that are at one of the given stages."""
        return np.isin(np.frombuffer(bytes(self.stages), dtype=np.uint8), stages)

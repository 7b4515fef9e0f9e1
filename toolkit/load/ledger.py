"""The rounds of one generator and their progress, in two bytes per round."""

import base64
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Self


class Stage(IntEnum):
    """The progress of a round, as its generator has observed it."""

    UNSENT = 0
    ASKED = 1
    """The prediction was requested; no response shows whether it was made."""
    ANSWERED = 2
    """The prediction is known; no feedback was sent."""
    FEEDBACK_SENT = 3
    """Feedback was sent; no response shows whether it was recorded."""
    ACKNOWLEDGED = 4
    PREDICTION_REFUSED = 5
    FEEDBACK_REFUSED = 6


OPEN = (Stage.ASKED, Stage.ANSWERED, Stage.FEEDBACK_SENT)
"""The stages of rounds that still need a prediction or feedback."""


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
        """Move the rounds that are at the stage `since` to the stage `to`; leave the others."""
        for each in rounds:
            if self.stages[each] == since:
                self.stages[each] = to

    def count(self, stage: Stage) -> int:
        """Count the rounds at a stage."""
        return self.stages.count(stage)

    def to_json(self) -> dict[str, str]:
        """Return both columns in the form that `from_json` reads."""
        return {name: base64.b64encode(getattr(self, name)).decode() for name in ("stages", "correct")}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """Read the output of `to_json`."""
        ledger = cls()
        ledger.stages = bytearray(base64.b64decode(written["stages"]))
        ledger.correct = bytearray(base64.b64decode(written["correct"]))
        return ledger

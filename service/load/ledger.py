"""What one generator knows of each of its rounds, in two bytes a round."""

import base64
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Self


class Stage(IntEnum):
    """How far a round has come, as far as its generator knows."""

    UNSENT = 0
    ASKED = 1
    """A prediction was asked for, and no answer tells whether it was made."""
    ANSWERED = 2
    """The prediction is known; no feedback was sent."""
    FEEDBACK_SENT = 3
    """Feedback was sent, and no answer tells whether it was recorded."""
    ACKNOWLEDGED = 4
    PREDICTION_REFUSED = 5
    FEEDBACK_REFUSED = 6


OPEN = (Stage.ASKED, Stage.ANSWERED, Stage.FEEDBACK_SENT)
"""What is still to be asked for or told."""


class Ledger:
    """The stage of each round, and whether its prediction was right."""

    def __init__(self) -> None:
        self.stages = bytearray()
        self.correct = bytearray()

    def add(self, n: int) -> range:
        """Begins n rounds; their numbers."""
        first = len(self.stages)
        self.stages.extend(bytes(n))
        self.correct.extend(bytes(n))
        return range(first, first + n)

    def advance(self, rounds: Sequence[int], since: Stage, to: Stage) -> None:
        """Moves those of the rounds that are at one stage to another; the others stay."""
        for each in rounds:
            if self.stages[each] == since:
                self.stages[each] = to

    def count(self, stage: Stage) -> int:
        """How many rounds are at a stage."""
        return self.stages.count(stage)

    def to_json(self) -> dict[str, str]:
        """Both columns, as `from_json` reads them."""
        return {name: base64.b64encode(getattr(self, name)).decode() for name in ("stages", "correct")}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """The ledger that `to_json` wrote."""
        ledger = cls()
        ledger.stages = bytearray(base64.b64decode(written["stages"]))
        ledger.correct = bytearray(base64.b64decode(written["correct"]))
        return ledger

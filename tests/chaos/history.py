"""What clients asked and were told, in time."""

from dataclasses import dataclass
from typing import NamedTuple


class Answer(NamedTuple):
    """What a prediction was: its label and propensity."""

    label: str
    propensity: float


class Verdict(NamedTuple):
    """What became of a feedback: recorded, duplicate, conflict or not-found; the round with the two first."""

    status: str
    correct: bool | None = None
    round: int | None = None


UNRECORDED = Verdict("unrecorded")
"""What the log tells of a prediction that it has no round of."""


class Loss(NamedTuple):
    """At one moment between these two, what was done last may have been undone, as by a fail-over.

    Where it is `split`, two stores took writes all the time: no order explains what clients were told by both.
    """

    begun: float
    ended: float
    split: bool = False


@dataclass(frozen=True)
class Operation:
    """One request, once sent.

    Attributes:
        prediction_id: what it was about.
        correct: what the feedback said; None for a prediction.
        begun, ended: moments of one clock, in seconds; `ended` means nothing where the reply is unknown.
        reply: None where none came, or one that leaves open whether it was done: then it may still be done later.
    """

    prediction_id: str
    correct: bool | None
    begun: float
    ended: float
    reply: Answer | Verdict | None


class Life(NamedTuple):
    """The state of one prediction: absent, open or closed; None for what has not been told yet."""

    phase: str = "absent"
    answer: Answer | None = None
    correct: bool | None = None
    round: int | None = None

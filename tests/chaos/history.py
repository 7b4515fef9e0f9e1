"""The clients' requests and replies, with their times."""

from dataclasses import dataclass
from typing import NamedTuple


class Answer(NamedTuple):
    """The reply to a prediction: label and propensity."""

    label: str
    propensity: float


class Verdict(NamedTuple):
    """The reply to feedback: recorded, duplicate, conflict or not-found; a round if recorded or duplicate."""

    status: str
    correct: bool | None = None
    round: int | None = None


UNRECORDED = Verdict("unrecorded")
"""The reply read from a log without a round for the prediction."""


class Loss(NamedTuple):
    """A time span with a moment at which the latest changes may have been undone, as by a fail-over.

    If `split`, two stores accepted writes during the span, and no order explains the replies of both.
    """

    begun: float
    ended: float
    split: bool = False


@dataclass(frozen=True)
class Operation:
    """One request, sent once.

    Attributes:
        prediction_id: id of the prediction.
        correct: value of the feedback; None for a prediction.
        begun, ended: Times of one clock in seconds; `ended` is meaningless if the reply is unknown.
        reply: None if no reply came, or only one that leaves the effect open; the request may then take effect later.
    """

    prediction_id: str
    correct: bool | None
    begun: float
    ended: float
    reply: Answer | Verdict | None


class Life(NamedTuple):
    """The state of one prediction: absent, open or closed. Members not determined by any reply are None."""

    phase: str = "absent"
    answer: Answer | None = None
    correct: bool | None = None
    round: int | None = None

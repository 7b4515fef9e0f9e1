"""The clients' requests and replies, with their times."""

from typing import NamedTuple


class Answer(NamedTuple):
    """The reply to a prediction: label and propensity."""

    label: str
    propensity: float


class Verdict(NamedTuple):
    """The reply to feedback: recorded, duplicate, conflict or not-found; a round if recorded or duplicate."""

    status: str
    correct: float | None = None  # the reward
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


class Operation(NamedTuple):
    """One request, sent once. A long run has millions: the items of one request share its times and ids."""

    prediction_id: str
    correct: float | None  # the value of the feedback, a bit or a reward; None for a prediction
    begun: float  # seconds of one clock
    ended: float  # meaningless if the reply is unknown
    reply: Answer | Verdict | None
    """None if no reply came, or only one that leaves the effect open; the request may then take effect later."""


class Life(NamedTuple):
    """The state of one prediction: absent, open or closed. Members not determined by any reply are None."""

    phase: str = "absent"
    answer: Answer | None = None
    correct: float | None = None
    round: int | None = None

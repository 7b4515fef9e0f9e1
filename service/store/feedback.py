"""Feedback for predictions, and its results."""

from enum import StrEnum
from typing import NamedTuple

from service.prediction_id import PredictionId
from service.store.records.outcomes import Outcome


class Feedback(NamedTuple):
    """Feedback to join with its prediction. It has `correct`, `truth`, or both, or only `reward`."""

    prediction_id: PredictionId
    correct: bool | None
    truth: bytes | None  # same length as the answer
    reward: float | None = None  # from 0 to 1; 1 means correct, and 0 means wrong
    digest: bytes = b""  # of the history by whose labels the truth is encoded


class FeedbackStatus(StrEnum):
    """The result of one feedback."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"  # a different outcome was recorded first
    INCONSISTENT = "inconsistent"  # `correct` contradicts the truth
    LABEL_NEEDED = "label-needed"  # the learner needs the truth, which is unknown
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    ACTIVATION_NEEDED = "activation-needed"
    HISTORY_LOST = "history-lost"  # the store has lost changes that the prediction has seen
    BROKEN = "broken"  # the record of the prediction is damaged
    NEWER = "newer-version"  # a newer version wrote the record of the prediction


class FeedbackResult(NamedTuple):
    """The status, and the outcome on record; None unless `recorded`, `duplicate` or `conflict`.

    The outcome of feedback that waits for the window to close has round 0.
    """

    status: FeedbackStatus
    outcome: Outcome | None


class FeedbackRules(NamedTuple):
    """A model's rules for accepting feedback, and the history by whose labels truths are encoded."""

    accept_late: bool
    label_needed: bool
    change_count: int
    digest: bytes

"""What must be true of a refusal: it was right at some moment since its request arrived at a worker."""

from typing import Any

from service.errors import (
    BrokenPredictionError,
    FeedbackConflictError,
    ModelNotFoundError,
    NewerVersionError,
    NotActivatedError,
    PredictionExpiredError,
    PredictionNotFoundError,
    StoreCorruptError,
    StoreError,
    WagerError,
)
from tests.simulation.histories import Since
from tests.simulation.log_rounds import Own, ViolationError
from tests.simulation.truth import Truth


def check_soundness(truth: Truth, since: Since, error: Any) -> None:
    """Check that no worker finds damage. A loss between two reads of a worker may look like it."""
    if isinstance(error, StoreCorruptError | NewerVersionError) and since.losses == truth.losses:
        raise ViolationError(f"nothing is damaged, but a worker found: {error}")


def check_refusal(truth: Truth, own: Own, correct: bool, since: Since, error: WagerError) -> None:
    """Check a refusal of feedback, if the server has lost nothing since the arrival.

    Without a loss, a round, the end of a window and a deletion stay true, so they are judged now. What may have become
    false is judged since the arrival: that a prediction is inactive, and what is stored under its id.
    """
    number, was_stored = truth.closed.get(own), truth.histories.stored_since(own, since.moment)
    there = None if number is None else truth.rounds[number - 1]
    match error:
        case FeedbackConflictError():
            holds = truth.waits(own) or (there is not None and there.reward != float(correct) and not there.is_expired)
        case PredictionNotFoundError():
            holds = not was_stored or own in truth.lost or truth.may_have_expired(own, since)
        case PredictionExpiredError():
            holds = truth.may_have_expired(own, since)
        case ModelNotFoundError():
            holds = not truth.exists
        case BrokenPredictionError() | NewerVersionError():
            holds = False
        case NotActivatedError():
            holds = truth.histories.was_inactive(own, since.moment)
        case _:
            holds = isinstance(error, StoreError)
    if not holds:
        raise ViolationError(f"feedback {correct} for {own} is refused ({error}), but its round is {there}")

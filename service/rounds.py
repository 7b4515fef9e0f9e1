"""The use cases: predict and give feedback."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from service import request_notes
from service.desk import Ask, Desk
from service.desks import Desks
from service.errors import (
    BatchTooLargeError,
    FeedbackConflictError,
    IdentifierError,
    InconsistentFeedbackError,
    InvalidInputError,
    LabelNeededError,
    ModelNotFoundError,
    PredictionExpiredError,
    PredictionNotFoundError,
    WagerError,
)
from service.schemas import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest
from service.store.base import Feedback, FeedbackResult, FeedbackStatus

_T = TypeVar("_T")


class RoundService:
    """Predictions and feedback, for every model. Any worker may answer any request.

    Args:
        desks: where they are played.
        max_distribution_numbers: the most probabilities that one answer to many predictions may list.
    """

    def __init__(self, desks: Desks, max_distribution_numbers: int) -> None:
        self._desks = desks
        self._max_distribution_numbers = max_distribution_numbers

    async def check_distributions(self, name: str, items: int) -> None:
        """Refuses to list more probabilities than fit an answer; a model that is not there is told of elsewhere.

        Raises:
            BatchTooLargeError: if so many predictions would.
        """
        try:
            labels = len((await self._desks.find(name, "model")).model.definition.labels)
        except ModelNotFoundError:
            return
        if items * labels > self._max_distribution_numbers:
            most = self._max_distribution_numbers // labels
            detail = f"{items} distributions over {labels} labels; one request may have {most}"
            raise BatchTooLargeError(detail, "include_distribution")

    async def predict(self, request: PredictRequest) -> PredictAnswer:
        """Draws an answer for the context and stores the prediction.

        Every round whose feedback was acknowledged before the call has been learned from. The same id and
        context bring the stored prediction again.

        Raises:
            ModelNotFoundError: if there is no such model.
            ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
            NormExceededError: if it is too long, and the model rejects such.
            NoDistributionError: if a distribution is asked for, and the answers are too many.
            IdentifierError: if the id names another model.
            PredictionConflictError: if the id was used with another context.
            StoreError: if the store does not do its part.
        """
        own_id = _own_id(request.model, request.prediction_id)
        ask = Ask(request.context, own_id, request.include_distribution)
        return await self._at_desk(request.model, "model", lambda desk: desk.predict(ask))

    async def give_feedback(self, request: FeedbackRequest) -> FeedbackAnswer:
        """Joins the feedback with its prediction; once, however often it is called.

        Raises:
            ModelNotFoundError: if there is no such model.
            PredictionNotFoundError: if the prediction was never made, or is forgotten.
            PredictionExpiredError: if its window has closed, and the model rejects late feedback.
            FeedbackConflictError: if other feedback came first.
            InvalidInputError: if the feedback says nothing, contradicts itself, or not enough for the learner.
            StoreError: if the store does not do its part.
        """
        if request.correct is None and request.true_label is None and request.true_labels is None:
            raise InvalidInputError("give correct, or true_label (true_labels of a set or ranking), or both", "correct")
        name = request.prediction_id.partition(":")[0]
        return await self._at_desk(name, "prediction_id", lambda desk: _give(desk, request))

    async def _at_desk(self, name: str, field: str, play: Callable[[Desk], Awaitable[_T]]) -> _T:
        """Plays at the model's desk; at a new one if the model was deleted and made again meanwhile."""
        request_notes.note_model(name)
        desk = await self._desks.find(name, field)
        try:
            return await play(desk)
        except ModelNotFoundError:
            self._desks.drop(desk)
            return await play(await self._desks.find(name, field))


def _own_id(model: str, prediction_id: str | None) -> str | None:
    """The client's id without the model's name before it."""
    if prediction_id is None or ":" not in prediction_id:
        return prediction_id
    name, _, own = prediction_id.partition(":")
    if name != model:
        raise IdentifierError(f"the id belongs to model {name!r}, not to {model!r}", "prediction_id")
    return own


async def _give(desk: Desk, request: FeedbackRequest) -> FeedbackAnswer:
    answers, own_id = desk.model.answers, request.prediction_id.partition(":")[2]
    result = await desk.give_feedback(Feedback(own_id, request.correct, answers.read(request)))
    return _feedback_answer(request.prediction_id, result, answers.truth_field)


_REFUSALS: dict[FeedbackStatus, tuple[type[WagerError], str, str]] = {
    FeedbackStatus.UNKNOWN: (PredictionNotFoundError, "there is no prediction {id!r}", "prediction_id"),
    FeedbackStatus.EXPIRED: (PredictionExpiredError, "the window of prediction {id!r} has closed", "prediction_id"),
    FeedbackStatus.CONFLICT: (FeedbackConflictError, "other feedback is on record for {id!r}: {first}", "correct"),
    FeedbackStatus.INCONSISTENT: (
        InconsistentFeedbackError,
        "correct contradicts {truth} for {id!r}",
        "correct",
    ),
    FeedbackStatus.LABEL_NEEDED: (
        LabelNeededError,
        "the learner of this model needs {truth} when the prediction was wrong",
        "{truth}",
    ),
}


def _feedback_answer(prediction_id: str, result: FeedbackResult, truth_field: str) -> FeedbackAnswer:
    status, outcome = result
    if status in _REFUSALS or outcome is None:
        error, detail, field = _REFUSALS[status]
        first = "" if outcome is None else f"correct is {str(outcome.correct).lower()}"
        raise error(detail.format(id=prediction_id, first=first, truth=truth_field), field.format(truth=truth_field))
    return FeedbackAnswer(
        prediction_id=prediction_id,
        correct=outcome.correct,
        status="recorded" if status is FeedbackStatus.RECORDED else "duplicate",
        round=outcome.round,
    )

"""The use cases: predict and give feedback."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from service import request_context as request_notes
from service.errors import (
    BatchTooLargeError,
    BrokenPredictionError,
    FeedbackConflictError,
    IdentifierError,
    InconsistentFeedbackError,
    InvalidInputError,
    LabelNeededError,
    ModelNotFoundError,
    NewerVersionError,
    PredictionExpiredError,
    PredictionNotFoundError,
    WagerError,
)
from service.models.answer_kinds import Answers
from service.per_item import attempt_each, together
from service.rounds.session import Ask, Desk
from service.rounds.session_cache import Desks
from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest
from service.store.base import Feedback, FeedbackResult, FeedbackStatus

__all__ = ["Ask", "RoundService", "ask_of"]

_T = TypeVar("_T")
_Item = TypeVar("_Item")
_PlayAll: TypeAlias = Callable[[Desk, Sequence[_Item]], Awaitable[list[_T | Exception]]]


class RoundService:
    """Predictions and feedback, for every model. Any worker may answer any request.

    Args:
        desks: where they are played.
        max_distribution_numbers: the most probabilities that one answer to many predictions may list.
    """

    def __init__(self, desks: Desks, max_distribution_numbers: int) -> None:
        self._desks = desks
        self._max_distribution_numbers = max_distribution_numbers

    async def check_answer_size(self, name: str, items: int, include_distribution: bool) -> None:
        """Refuse to list more probabilities, or labels of sets and rankings, than fit an answer.

        A missing model is reported later.

        Raises:
            BatchTooLargeError: if so many predictions would.
        """
        try:
            model = (await self._desks.find(name, "model")).model
        except ModelNotFoundError:
            return
        lists = include_distribution + (model.answers.choices is None)
        numbers = lists * len(model.definition.labels)
        if items * numbers > self._max_distribution_numbers:
            most = self._max_distribution_numbers // numbers
            detail = f"{items} answers would list {numbers:,} labels each; one request may have {most}"
            raise BatchTooLargeError(detail, "include_distribution" if include_distribution else "contexts")

    async def predict(self, request: PredictRequest) -> PredictAnswer:
        """Draws an answer for the context and stores the prediction.

        Every round whose feedback was acknowledged before the call has been learned from. The same id and
        context bring the stored prediction again.

        Raises:
            ModelNotFoundError: if there is no such model.
            ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
            NormExceededError: if it is beyond the bound, and the model rejects such.
            NoDistributionError: if a distribution is asked for, and the answers are too many.
            IdentifierError: if the id names another model.
            PredictionConflictError: if the id was used with another context.
            LearnerFailedError: if the learner cannot decide.
            StoreError: if the store does not do its part.
        """
        ask = ask_of(request)
        return await self._at_desk(request.model, "model", lambda desk: desk.predict(ask))

    async def predict_all(self, model: str, asks: Sequence[Ask | Exception]) -> list[PredictAnswer | Exception]:
        """As `predict` for each; what has failed already stays, and what would be raised stands among the answers."""
        return await together(partial(self._all_at_desk, model, "model", Desk.predict_all), asks)

    async def give_feedback(self, request: FeedbackRequest) -> FeedbackAnswer:
        """Joins the feedback with its prediction; once, however often it is called.

        Raises:
            ModelNotFoundError: if there is no such model.
            PredictionNotFoundError: if the prediction was never made, or is forgotten.
            PredictionExpiredError: if its window has closed, and the model rejects late feedback.
            FeedbackConflictError: if other feedback came first.
            BrokenPredictionError: if its record is damaged.
            InvalidInputError: if the feedback says nothing, contradicts itself, or not enough for the learner.
            StoreError: if the store does not do its part.
        """
        name = _model_of(_checked(request))
        return await self._at_desk(name, "prediction_id", lambda desk: _give(desk, request))

    async def give_all(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        """As `give_feedback` for each request; what would be raised stands among the answers."""
        return await together(self._give_by_model, attempt_each(_checked, requests))

    async def _give_by_model(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        names = list(map(_model_of, requests))
        by_model: defaultdict[str, list[FeedbackRequest]] = defaultdict(list)
        for name, request in zip(names, requests, strict=True):
            by_model[name].append(request)
        given = [self._all_at_desk(name, "prediction_id", _give_all, items) for name, items in by_model.items()]
        answers = dict(zip(by_model, map(iter, await asyncio.gather(*given)), strict=True))
        return [next(answers[name]) for name in names]

    async def _at_desk(self, name: str, field: str, play: Callable[[Desk], Awaitable[_T]]) -> _T:
        """Plays at the model's desk; at a new one if the model was deleted and made again meanwhile."""
        request_notes.note_model(name)
        desk = await self._desks.find(name, field)
        try:
            return await play(desk)
        except ModelNotFoundError:
            self._desks.drop(desk)
            return await play(await self._desks.find(name, field))

    async def _all_at_desk(
        self, name: str, field: str, play: _PlayAll[_Item, _T], items: Sequence[_Item], again: bool = True
    ) -> list[_T | Exception]:
        """As `_at_desk`, with many items: those that the model's deletion stopped are played again."""
        request_notes.note_model(name)
        try:
            desk = await self._desks.find(name, field)
        except WagerError as error:
            return [error] * len(items)
        results = await play(desk, items)
        stopped = [i for i, result in enumerate(results) if isinstance(result, ModelNotFoundError)]
        if stopped and again:
            self._desks.drop(desk)
            replayed = await self._all_at_desk(name, field, play, [items[i] for i in stopped], again=False)
            for i, result in zip(stopped, replayed, strict=True):
                results[i] = result
        return results


def ask_of(request: PredictRequest) -> Ask:
    """What a request asks for.

    Raises:
        IdentifierError: if its id names another model.
    """
    return Ask(request.context, _own_id(request.model, request.prediction_id), request.include_distribution)


def _own_id(model: str, prediction_id: str | None) -> str | None:
    """The client's id without the model's name before it."""
    if prediction_id is None or ":" not in prediction_id:
        return prediction_id
    name, _, own = prediction_id.partition(":")
    if name != model:
        raise IdentifierError(f"the id belongs to model {name!r}, not to {model!r}", "prediction_id")
    return own


def _checked(request: FeedbackRequest) -> FeedbackRequest:
    if request.correct is None and request.true_label is None and request.true_labels is None:
        raise InvalidInputError("give correct, or true_label (true_labels of a set or ranking), or both", "correct")
    return request


def _model_of(request: FeedbackRequest) -> str:
    return request.prediction_id.partition(":")[0]


async def _give(desk: Desk, request: FeedbackRequest) -> FeedbackAnswer:
    result = await desk.give_feedback(_feedback(desk.model.answers, request))
    judged = _judged(request.prediction_id, result, desk.model.answers.truth_field)
    if isinstance(judged, WagerError):
        raise judged
    return judged


async def _give_all(desk: Desk, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
    answers = desk.model.answers
    results = await together(desk.give_all, attempt_each(partial(_feedback, answers), requests))
    truth_field = answers.truth_field
    return [
        result if isinstance(result, Exception) else _judged(request.prediction_id, result, truth_field)
        for request, result in zip(requests, results, strict=True)
    ]


def _feedback(answers: Answers, request: FeedbackRequest) -> Feedback:
    return Feedback(request.prediction_id.partition(":")[2], request.correct, answers.read(request))


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
    FeedbackStatus.BROKEN: (BrokenPredictionError, "the record of prediction {id!r} is damaged", "prediction_id"),
    FeedbackStatus.NEWER: (NewerVersionError, "a newer version wrote prediction {id!r}", "prediction_id"),
}


def _judged(prediction_id: str, result: FeedbackResult, truth_field: str) -> FeedbackAnswer | WagerError:
    """What is on record, or why nothing was recorded."""
    status, outcome = result
    if outcome is None or status in _REFUSALS:
        error, detail, field = _REFUSALS[status]
        first = "" if outcome is None else f"correct is {str(outcome.correct).lower()}"
        detail = detail.format(id=prediction_id, first=first, truth=truth_field)
        return error(detail, field.format(truth=truth_field))
    told: Literal["recorded", "duplicate"] = "recorded" if status is FeedbackStatus.RECORDED else "duplicate"
    return FeedbackAnswer(prediction_id, outcome.correct, told, outcome.round)

"""The use cases: predict and give feedback."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from service import request_context
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
from service.per_item import apply_to_valid, attempt_each
from service.rounds.session import ModelSession, PredictionRequest
from service.rounds.session_cache import SessionCache
from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest
from service.store.base import Feedback, FeedbackResult, FeedbackStatus

__all__ = ["PredictionRequest", "RoundService", "prediction_request"]

_T = TypeVar("_T")
_Item = TypeVar("_Item")
_PlayAll: TypeAlias = Callable[[ModelSession, Sequence[_Item]], Awaitable[list[_T | Exception]]]


class RoundService:
    """Predictions and feedback, for every model. Any worker may answer any request.

    Args:
        sessions: where they are played.
        max_distribution_numbers: the most probabilities that one answer to many predictions may list.
    """

    def __init__(self, sessions: SessionCache, max_distribution_numbers: int) -> None:
        self._sessions = sessions
        self._max_distribution_numbers = max_distribution_numbers

    async def check_answer_size(self, name: str, items: int, include_distribution: bool) -> None:
        """Refuse to list more probabilities, or labels of sets and rankings, than fit an answer.

        A missing model is reported later.

        Raises:
            BatchTooLargeError: if so many predictions would.
        """
        try:
            model = (await self._sessions.find(name, "model")).model
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
        asked = prediction_request(request)
        return await self._in_session(request.model, "model", lambda session: session.predict(asked))

    async def predict_all(
        self, model: str, requests: Sequence[PredictionRequest | Exception]
    ) -> list[PredictAnswer | Exception]:
        """As `predict` for each; what has failed already stays, and what would be raised stands among the answers."""
        return await apply_to_valid(partial(self._all_in_session, model, "model", ModelSession.predict_all), requests)

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
        return await self._in_session(name, "prediction_id", lambda session: _give(session, request))

    async def give_all(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        """As `give_feedback` for each request; what would be raised stands among the answers."""
        return await apply_to_valid(self._give_by_model, attempt_each(_checked, requests))

    async def _give_by_model(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        names = list(map(_model_of, requests))
        by_model: defaultdict[str, list[FeedbackRequest]] = defaultdict(list)
        for name, request in zip(names, requests, strict=True):
            by_model[name].append(request)
        given = [self._all_in_session(name, "prediction_id", _give_all, items) for name, items in by_model.items()]
        answers = dict(zip(by_model, map(iter, await asyncio.gather(*given)), strict=True))
        return [next(answers[name]) for name in names]

    async def _in_session(self, name: str, field: str, play: Callable[[ModelSession], Awaitable[_T]]) -> _T:
        """Plays at the model's session; at a new one if the model was deleted and made again meanwhile."""
        request_context.note_model(name)
        session = await self._sessions.find(name, field)
        try:
            return await play(session)
        except ModelNotFoundError:
            self._sessions.drop(session)
            return await play(await self._sessions.find(name, field))

    async def _all_in_session(
        self, name: str, field: str, play: _PlayAll[_Item, _T], items: Sequence[_Item], again: bool = True
    ) -> list[_T | Exception]:
        """As `_in_session`, with many items: those that the model's deletion stopped are played again."""
        request_context.note_model(name)
        try:
            session = await self._sessions.find(name, field)
        except WagerError as error:
            return [error] * len(items)
        results = await play(session, items)
        stopped = [i for i, result in enumerate(results) if isinstance(result, ModelNotFoundError)]
        if stopped and again:
            self._sessions.drop(session)
            replayed = await self._all_in_session(name, field, play, [items[i] for i in stopped], again=False)
            for i, result in zip(stopped, replayed, strict=True):
                results[i] = result
        return results


def prediction_request(request: PredictRequest) -> PredictionRequest:
    """What a request asks for.

    Raises:
        IdentifierError: if its id names another model.
    """
    return PredictionRequest(
        request.context, _own_id(request.model, request.prediction_id), request.include_distribution
    )


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


async def _give(session: ModelSession, request: FeedbackRequest) -> FeedbackAnswer:
    result = await session.give_feedback(_feedback(session.model.answers, request))
    judged = _to_answer(request.prediction_id, result, session.model.answers.truth_field)
    if isinstance(judged, WagerError):
        raise judged
    return judged


async def _give_all(session: ModelSession, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
    answers = session.model.answers
    results = await apply_to_valid(session.give_all, attempt_each(partial(_feedback, answers), requests))
    truth_field = answers.truth_field
    return [
        result if isinstance(result, Exception) else _to_answer(request.prediction_id, result, truth_field)
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


def _to_answer(prediction_id: str, result: FeedbackResult, truth_field: str) -> FeedbackAnswer | WagerError:
    """What is on record, or why nothing was recorded."""
    status, outcome = result
    if outcome is None or status in _REFUSALS:
        error, detail, field = _REFUSALS[status]
        first = "" if outcome is None else f"correct is {str(outcome.correct).lower()}"
        detail = detail.format(id=prediction_id, first=first, truth=truth_field)
        return error(detail, field.format(truth=truth_field))
    told: Literal["recorded", "duplicate"] = "recorded" if status is FeedbackStatus.RECORDED else "duplicate"
    return FeedbackAnswer(prediction_id, outcome.correct, told, outcome.round)

"""The use cases: predict and give feedback."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from service import request_context
from service.errors import BatchTooLargeError, InvalidInputError, ModelNotFoundError, WagerError
from service.per_item import apply_to_valid, attempt_each
from service.rounds.prediction_requests import PredictionRequest
from service.rounds.session import ModelSession
from service.rounds.session_cache import SessionCache
from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer

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
            BatchTooLargeError: if the answer would be too large.
        """
        try:
            model = (await self._sessions.find(name, "model")).model
        except ModelNotFoundError:
            return
        lists = include_distribution + (model.answers.choices is None)
        numbers = lists * len(model.definition.labels)
        if items * numbers > self._max_distribution_numbers:
            most = self._max_distribution_numbers // numbers
            detail = (
                f"got {items} predictions that list {numbers} labels each; a request may have at most {most} of them"
            )
            raise BatchTooLargeError(detail, "include_distribution" if include_distribution else "contexts")

    async def predict(self, model: str, request: PredictionRequest) -> PredictAnswer:
        """Draw an answer for the context, and store the prediction.

        Every round whose feedback was acknowledged before the call has been learned from. The same id and
        context bring the stored prediction again.

        Raises:
            ModelNotFoundError: if there is no such model.
            ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
            NormExceededError: if it is beyond the bound, and the model rejects such.
            NoDistributionError: if a distribution is asked for, and the answers are too many.
            PredictionConflictError: if the id was used with another context.
            LearnerFailedError: if the learner cannot decide.
            StoreError: if the store does not do its part.
        """
        return await self._in_session(model, "model", ModelSession.predict, request)

    async def predict_all(
        self, model: str, requests: Sequence[PredictionRequest | Exception]
    ) -> list[PredictAnswer | Exception]:
        """As `predict` for each; what has failed already stays, and what would be raised is among the answers."""
        return await apply_to_valid(partial(self._all_in_session, model, "model", ModelSession.predict_all), requests)

    async def give_feedback(self, request: FeedbackRequest) -> FeedbackAnswer:
        """Join the feedback with its prediction: once, however often it is called.

        Raises:
            ModelNotFoundError: if there is no such model.
            PredictionNotFoundError: if the prediction was never made, or is forgotten.
            PredictionExpiredError: if its window has closed, and the model rejects late feedback.
            FeedbackConflictError: if other feedback came first.
            BrokenPredictionError: if its record is damaged.
            InvalidInputError: if the feedback says nothing, contradicts itself, or not enough for the learner.
            StoreError: if the store does not do its part.
        """
        name = _checked(request).prediction_id.model
        return await self._in_session(name, "prediction_id", ModelSession.give_feedback, request)

    async def give_all(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        """As `give_feedback` for each request; what would be raised is among the answers."""
        return await apply_to_valid(self._give_by_model, attempt_each(_checked, requests))

    async def _give_by_model(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        by_model: defaultdict[str, list[FeedbackRequest]] = defaultdict(list)
        names = [request.prediction_id.model for request in requests]
        for name, request in zip(names, requests, strict=True):
            by_model[name].append(request)
        play = ModelSession.give_all
        given = [self._all_in_session(name, "prediction_id", play, items) for name, items in by_model.items()]
        answers = dict(zip(by_model, map(iter, await asyncio.gather(*given)), strict=True))
        return [next(answers[name]) for name in names]

    async def _in_session(
        self, name: str, field: str, play: Callable[[ModelSession, _Item], Awaitable[_T]], item: _Item
    ) -> _T:
        """Play an item in the model's session; in a new one if the model was deleted and made again since."""
        request_context.note_model(name)
        session = await self._sessions.find(name, field)
        try:
            return await play(session, item)
        except ModelNotFoundError:
            self._sessions.drop(session)
            return await play(await self._sessions.find(name, field), item)

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


def _checked(request: FeedbackRequest) -> FeedbackRequest:
    if request.correct is None and request.true_label is None and request.true_labels is None:
        raise InvalidInputError(
            "missing; send correct, or true_label (true_labels for a set or ranking), or both", "correct"
        )
    return request

"""The use cases of predictions and feedback."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from service import request_context
from service.choice.requests import PredictionRequest
from service.error_messages.values import counted, shown
from service.errors import BatchTooLargeError, InvalidInputError, ModelNotFoundError, RewardNotAloneError, WagerError
from service.per_item import apply_to_valid, indices_of, map_results
from service.rounds.explaining import explain
from service.rounds.feedback import activate
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.fast_decoders import FeedbackInput
from service.schemas.reports import ExplainAnswer, ExplainRequest
from service.schemas.rounds import ActivateAnswer, ActivateRequest, FeedbackAnswer, PredictAnswer

_T = TypeVar("_T")
_Item = TypeVar("_Item")
_WorkOnAll: TypeAlias = Callable[[ModelSession, Sequence[_Item]], Awaitable[list[_T | Exception]]]


class RoundService:
    """Predictions and feedback for every model. Any worker can answer any request."""

    def __init__(self, sessions: SessionCache, max_distribution_numbers: int) -> None:
        self._sessions, self._max_distribution_numbers = sessions, max_distribution_numbers

    async def check_answer_size(self, name: str, items: int, include_distribution: bool) -> None:
        """Raise `BatchTooLargeError` if the response would list too many numbers; a missing model is reported later."""
        try:
            model = (await self._sessions.find(name, "model")).model
        except ModelNotFoundError:
            return
        lists = include_distribution + (model.choice.answers.choices is None)
        numbers = lists * len(model.definition.labels)
        if items * numbers > self._max_distribution_numbers:
            most = self._max_distribution_numbers // numbers
            asked = f"got {counted(items, 'predictions')}, each with {counted(numbers, 'probabilities or labels')}"
            detail = f"{asked}; a request may have at most {most} such predictions"
            raise BatchTooLargeError(detail, "include_distribution" if include_distribution else "contexts")

    def predict(self, model: str, request: PredictionRequest) -> Awaitable[PredictAnswer]:
        """Draw an answer to the request, and store the prediction.

        The state includes every round acknowledged before the call, unless the model's `freshness` allows an older one.
        Repeating a request with the same id, context and options returns the stored prediction.
        """
        return self._sessions.use(model, "model", lambda session: session.predictor.predict(request))

    async def predict_all(
        self, model: str, requests: Sequence[PredictionRequest | Exception]
    ) -> list[PredictAnswer | Exception]:
        """Handle each request as `predict` does. Return errors, also those among the requests, instead of raising."""
        predict = partial(self._all, model, "model", lambda session, items: session.predictor.predict_all(items))
        return await apply_to_valid(predict, requests)

    async def give_feedback(self, request: FeedbackInput) -> FeedbackAnswer:
        """Join the feedback with its prediction. Repeated calls record it once."""
        name = _checked(request).prediction_id.model
        return await self._sessions.use(name, "prediction_id", lambda session: session.feedback.give(request))

    async def give_all(self, requests: Sequence[FeedbackInput]) -> list[FeedbackAnswer | Exception]:
        """Handle each request as `give_feedback` does; return errors instead of raising them."""
        return await apply_to_valid(self._give_by_model, map_results(_checked, requests))

    async def _give_by_model(self, requests: Sequence[FeedbackInput]) -> list[FeedbackAnswer | Exception]:
        by_model: defaultdict[str, list[FeedbackInput]] = defaultdict(list)
        names = [request.prediction_id.model for request in requests]
        for name, request in zip(names, requests, strict=True):
            by_model[name].append(request)
        give = partial(self._all, field="prediction_id", work=lambda session, items: session.feedback.give_all(items))
        batches = [give(name, items=items) for name, items in by_model.items()]
        answers = dict(zip(by_model, map(iter, await asyncio.gather(*batches)), strict=True))
        return [next(answers[name]) for name in names]

    def explain(self, name: str, request: ExplainRequest) -> Awaitable[ExplainAnswer]:
        """Explain a context, with a state that includes every acknowledged round. Store nothing."""
        compute, most = self._sessions.environment.compute, self._max_distribution_numbers
        return self._sessions.use(name, "name", lambda session: explain(session.replica, compute, request, most))

    def activate(self, request: ActivateRequest) -> Awaitable[ActivateAnswer]:
        """Allow feedback for a prediction. Repeated calls change nothing."""
        name, environment = request.prediction_id.model, self._sessions.environment
        return self._sessions.use(name, "prediction_id", lambda each: activate(each.model, environment, request))

    async def _all(
        self, name: str, field: str, work: _WorkOnAll[_Item, _T], items: Sequence[_Item], again: bool = True
    ) -> list[_T | Exception]:
        """Work on items in a model's session. If the model was deleted, repeat the failed items in a new session."""
        request_context.note_model(name)
        try:
            session = await self._sessions.find(name, field)
        except WagerError as error:
            return [error] * len(items)
        results = await work(session, items)
        stopped = indices_of(results, ModelNotFoundError)
        if stopped and again:
            self._sessions.drop(session)
            repeated = await self._all(name, field, work, [items[i] for i in stopped], again=False)
            for i, result in zip(stopped, repeated, strict=True):
                results[i] = result
        return results


def _checked(request: FeedbackInput) -> FeedbackInput:
    if request.correct is not None and request.reward is None:
        return request
    sent = [name for name in ("correct", "true_label", "true_labels") if getattr(request, name) is not None]
    if not sent and request.reward is None:
        detail = "missing; send correct, or true_label (true_labels for a set or ranking), or both, or reward"
        raise InvalidInputError(detail, "correct")
    if sent and request.reward is not None:
        raise RewardNotAloneError(f"got {shown(request.reward)} together with {sent[0]}; send one of them", "reward")
    return request

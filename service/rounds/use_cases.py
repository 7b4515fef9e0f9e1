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
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.fast_decoders import GivenFeedback
from service.schemas.reports import ExplainAnswer, ExplainRequest
from service.schemas.rounds import ActivateAnswer, ActivateRequest, FeedbackAnswer, PredictAnswer

_T = TypeVar("_T")
_Item = TypeVar("_Item")
_PlayAll: TypeAlias = Callable[[ModelSession, Sequence[_Item]], Awaitable[list[_T | Exception]]]


class RoundService:
    """Predictions and feedback for every model. Any worker can answer any request."""

    def __init__(self, sessions: SessionCache, max_distribution_numbers: int) -> None:
        self._sessions = sessions
        self._max_distribution_numbers = max_distribution_numbers

    async def check_answer_size(self, name: str, items: int, include_distribution: bool) -> None:
        """Raise `BatchTooLargeError` if the response to a batch would list too many probabilities or labels.

        Missing models are reported later.
        """
        try:
            model = (await self._sessions.find(name, "model")).model
        except ModelNotFoundError:
            return
        lists = include_distribution + (model.choice.answers.choices is None)
        numbers = lists * len(model.definition.labels)
        if items * numbers > self._max_distribution_numbers:
            most = self._max_distribution_numbers // numbers
            given = f"got {counted(items, 'predictions')} that list {numbers} labels each"
            detail = f"{given}; a request may have at most {most} of them"
            raise BatchTooLargeError(detail, "include_distribution" if include_distribution else "contexts")

    async def predict(self, model: str, request: PredictionRequest) -> PredictAnswer:
        """Draw an answer for the context, and store the prediction.

        The state includes every round whose feedback was acknowledged before the call. Repeating a request with
        the same id and context returns the stored prediction.
        """
        return await self._in_session(model, "model", ModelSession.predict, request)

    async def predict_all(
        self, model: str, requests: Sequence[PredictionRequest | Exception]
    ) -> list[PredictAnswer | Exception]:
        """Predict each request as `predict` does. Pass earlier errors through; return errors instead of raising."""
        return await apply_to_valid(partial(self._all_in_session, model, "model", ModelSession.predict_all), requests)

    async def give_feedback(self, request: GivenFeedback) -> FeedbackAnswer:
        """Join the feedback with its prediction. Repeated calls record it once."""
        name = _checked(request).prediction_id.model
        return await self._in_session(name, "prediction_id", ModelSession.give_feedback, request)

    async def give_all(self, requests: Sequence[GivenFeedback]) -> list[FeedbackAnswer | Exception]:
        """Handle each request as `give_feedback` does; return errors instead of raising them."""
        return await apply_to_valid(self._give_by_model, map_results(_checked, requests))

    async def explain(self, name: str, request: ExplainRequest) -> ExplainAnswer:
        """Explain a context with the state after every acknowledged round. Store nothing."""
        explain = partial(ModelSession.explain, most_numbers=self._max_distribution_numbers)
        return await self._in_session(name, "name", explain, request)

    async def activate(self, request: ActivateRequest) -> ActivateAnswer:
        """Let a prediction take feedback. Repeated calls change nothing."""
        name = request.prediction_id.model
        return await self._in_session(name, "prediction_id", ModelSession.activate, request)

    async def _give_by_model(self, requests: Sequence[GivenFeedback]) -> list[FeedbackAnswer | Exception]:
        by_model: defaultdict[str, list[GivenFeedback]] = defaultdict(list)
        names = [request.prediction_id.model for request in requests]
        if len(set(names)) == 1:
            return await self._all_in_session(names[0], "prediction_id", ModelSession.give_all, requests)
        for name, request in zip(names, requests, strict=True):
            by_model[name].append(request)
        play = ModelSession.give_all
        given = [self._all_in_session(name, "prediction_id", play, items) for name, items in by_model.items()]
        answers = dict(zip(by_model, map(iter, await asyncio.gather(*given)), strict=True))
        return [next(answers[name]) for name in names]

    async def _in_session(
        self, name: str, field: str, play: Callable[[ModelSession, _Item], Awaitable[_T]], item: _Item
    ) -> _T:
        """Handle an item in the model's session; retry in a new session if the model was deleted and recreated."""
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
        """Handle many items as `_in_session` does; retry those that failed because the model was deleted."""
        request_context.note_model(name)
        try:
            session = await self._sessions.find(name, field)
        except WagerError as error:
            return [error] * len(items)
        results = await play(session, items)
        stopped = indices_of(results, ModelNotFoundError)
        if stopped and again:
            self._sessions.drop(session)
            replayed = await self._all_in_session(name, field, play, [items[i] for i in stopped], again=False)
            for i, result in zip(stopped, replayed, strict=True):
                results[i] = result
        return results


def _checked(request: GivenFeedback) -> GivenFeedback:
    if request.correct is not None and request.reward is None:
        return request
    said = [name for name in ("correct", "true_label", "true_labels") if getattr(request, name) is not None]
    if not said and request.reward is None:
        raise InvalidInputError(
            "missing; send correct, or true_label (true_labels for a set or ranking), or both, or reward", "correct"
        )
    if said and request.reward is not None:
        raise RewardNotAloneError(f"got {shown(request.reward)} together with {said[0]}; send one of them", "reward")
    return request

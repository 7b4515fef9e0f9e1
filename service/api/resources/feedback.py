"""`POST /feedback`, single and in batches, and `POST /activate`."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from service import errors, input_errors
from service.api.middleware.access import check_model, own_names
from service.api.responses.batches import READING_COST, answers_or_problems, check_size, read_each, read_together
from service.api.responses.json_route import JsonRoute
from service.api.responses.problems import responses
from service.compute import Compute
from service.per_item import apply_to_valid, attempt_each
from service.rounds.use_cases import RoundService
from service.schemas.plain_bodies import GivenFeedback, read_plain_feedback
from service.schemas.rounds import (
    ActivateAnswer,
    ActivateRequest,
    FeedbackAnswer,
    FeedbackBatchAnswer,
    FeedbackBatchRequest,
    FeedbackRequest,
)

_ERRORS = responses(
    errors.ModelNotFoundError,
    errors.PredictionNotFoundError,
    errors.PredictionExpiredError,
    errors.FeedbackConflictError,
    input_errors.UnknownLabelError,
    input_errors.WrongTruthError,
    input_errors.InconsistentFeedbackError,
    input_errors.LabelNeededError,
    input_errors.RewardNotAloneError,
    input_errors.RewardNotAcceptedError,
    errors.NotActivatedError,
    errors.HistoryLostError,
    errors.BrokenPredictionError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)

_ACTIVATION_ERRORS = responses(
    errors.ModelNotFoundError,
    errors.PredictionNotFoundError,
    errors.PredictionExpiredError,
    errors.BrokenPredictionError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)


def router(rounds: RoundService, compute: Compute, max_items: int) -> APIRouter:
    """Return the routes of feedback.

    Args:
        rounds: records the feedback.
        compute: reads batches with invalid items.
        max_items: maximum items in a batch.
    """
    routes = APIRouter(tags=["rounds"], route_class=JsonRoute)

    @routes.post("/feedback", responses=_ERRORS)
    async def feedback(request: FeedbackRequest) -> FeedbackAnswer:
        """Record whether a prediction was right. A repeat returns the first outcome, with status `duplicate`."""
        return await rounds.give_feedback(_allowed(request))

    @routes.post("/feedback/batch", responses=responses(input_errors.BatchTooLargeError))
    async def feedback_batch(request: FeedbackBatchRequest) -> FeedbackBatchAnswer:
        """Record many feedback items together. The response has a result or a problem for each, in order."""
        check_size(len(request.feedback), max_items, "feedback")

        requests = await _read(request.feedback)
        answers = await apply_to_valid(
            rounds.give_all, requests if own_names().all else attempt_each(_allowed, requests)
        )
        return FeedbackBatchAnswer(results=answers_or_problems(answers))

    @routes.post("/activate", responses=_ACTIVATION_ERRORS)
    async def activate(request: ActivateRequest) -> ActivateAnswer:
        """Let a prediction that was made with `"activated": false` take feedback. A repeat changes nothing."""
        check_model(request.prediction_id.model, "prediction_id")
        return await rounds.activate(request)

    async def _read(items: Sequence[Any]) -> Sequence[GivenFeedback | Exception]:
        if (plain := read_plain_feedback(items)) is not None:
            return plain
        together = read_together(FeedbackRequest, items)
        if together is not None:
            return together
        return await compute.run_costly(READING_COST * len(items), "", read_each, FeedbackRequest, items)

    return routes


def _allowed(request: GivenFeedback) -> GivenFeedback:
    check_model(request.prediction_id.model, "prediction_id")
    return request

"""`POST /feedback`, single and in batches, `POST /activate`, and `POST /webhooks/feedback`."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
from fastapi import APIRouter, Request

from service import costs, errors
from service.api.middleware.access import check_model, own_names
from service.api.responses.batches import answers_or_problems, check_size, read_each, read_together
from service.api.responses.problems import problem_of, responses
from service.api.responses.routes import JsonRoute, StrictRoute
from service.compute import Compute
from service.error_messages.json_schemas import root_of
from service.error_messages.validation import explain
from service.json_values import JsonObject
from service.per_item import apply_to_valid, map_results
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Receiver
from service.schemas import rounds as schemas
from service.schemas.fast_decoders import FeedbackInput, read_decoded_feedback

_OUTCOME_ERRORS = (
    *(errors.FeedbackConflictError, errors.NotActivatedError, errors.UnknownLabelError),
    *errors.OUTCOME_ERRORS,
)
_ACTIVATION_ERRORS = (errors.PredictionNotFoundError, errors.PredictionExpiredError, *errors.WRITING_ERRORS)


def router(rounds: RoundService, compute: Compute, max_items: int) -> APIRouter:
    """Return the routes of feedback."""
    routes = APIRouter(tags=["rounds"], route_class=JsonRoute)

    @routes.post("/feedback", responses=responses(*_ACTIVATION_ERRORS, errors.HistoryLostError, *_OUTCOME_ERRORS))
    async def feedback(request: schemas.FeedbackRequest) -> schemas.FeedbackAnswer:
        """Record whether a prediction was right. A repeat returns the first outcome, with status `duplicate`."""
        return await rounds.give_feedback(_allowed(request))

    @routes.post("/feedback/batch", responses=responses(errors.BatchTooLargeError))
    async def feedback_batch(request: schemas.FeedbackBatchRequest) -> schemas.FeedbackBatchAnswer:
        """Record many feedback items together. The response has a result or a problem for each, in order."""
        check_size(len(request.feedback), max_items, "feedback")
        requests = await _read(request.feedback)
        allowed = requests if own_names().all else map_results(_allowed, requests)
        return schemas.FeedbackBatchAnswer(results=answers_or_problems(await apply_to_valid(rounds.give_all, allowed)))

    @routes.post("/activate", responses=responses(*_ACTIVATION_ERRORS))
    async def activate(request: schemas.ActivateRequest) -> schemas.ActivateAnswer:
        """Activate a prediction that was requested with `"activated": false`, so that it accepts feedback.

        A repetition changes nothing.
        """
        check_model(request.prediction_id.model, "prediction_id")
        return await rounds.activate(request)

    async def _read(items: Sequence[Any]) -> Sequence[FeedbackInput | Exception]:
        if (found := read_decoded_feedback(items) or read_together(schemas.FeedbackRequest, items)) is not None:
            return found
        cost = costs.SINGLE_ITEM * len(items)
        return await compute.run_in_thread_if_costly(cost, "", read_each, schemas.FeedbackRequest, items)

    return routes


def _allowed(request: FeedbackInput) -> FeedbackInput:
    check_model(request.prediction_id.model, "prediction_id")
    return request


# These are answered with 200: a retry would fail again, and after days of errors a sender disables the webhook.
_IGNORED = (
    *(errors.ModelNotFoundError, errors.PredictionNotFoundError, errors.PredictionExpiredError),
    *(errors.BrokenPredictionError, errors.HistoryLostError),
)

_HEADERS = {
    "webhook-id": "The id of the message, the same for every attempt.",
    "webhook-timestamp": "When the message was sent, in seconds since the epoch; at most five minutes ago.",
    "webhook-signature": "`v1,` and the base64 of an HMAC-SHA256; separate several with spaces.",
}
_DOCUMENTED: JsonObject = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/FeedbackRequest"}}},
    },
    "parameters": [
        {"name": name, "in": "header", "required": True, "description": about, "schema": {"type": "string"}}
        for name, about in _HEADERS.items()
    ],
}
_WEBHOOK_ERRORS = responses(
    *(errors.SignatureError, errors.NewerVersionError, errors.StoreFullError, errors.StoreCorruptError),
    *_OUTCOME_ERRORS,
)


def webhook_router(rounds: RoundService, receiver: Receiver, compute: Compute) -> APIRouter:
    """Return the route of webhooks."""
    routes = APIRouter(tags=["rounds"], route_class=StrictRoute)

    @routes.post(
        "/webhooks/feedback", summary="Receive a webhook", responses=_WEBHOOK_ERRORS, openapi_extra=_DOCUMENTED
    )
    async def webhook_feedback(request: Request) -> schemas.WebhookAnswer:
        """Record feedback that is signed according to Standard Webhooks 1.0.

        The body is that of `POST /feedback`, or an event that contains it as `data`: a CloudEvent (structured or
        binary, in JSON), or an object with `type` and `data`. Other members of `data` are ignored. If a sender's events
        have other names, `WAGER_WEBHOOK_MEMBERS` maps them to the fields. Feedback is `ignored` if the prediction is
        unknown, expired or damaged, or was made after changes that the store has lost, because an error would only
        cause retries. Feedback that contradicts recorded feedback is refused with 409: it is a fault of the sender.
        """
        # Before the body is read: an unsigned request is refused even if its body never ends.
        receiver.check_headers(request.headers)
        body = await request.body()
        cost = len(body) * costs.WEBHOOK_BYTE
        feedback = await compute.run_in_thread_if_costly(cost, "", _received, receiver, request.headers, body)
        try:
            answer = await rounds.give_feedback(feedback)
        except errors.WagerError as error:
            told = copy.copy(error)
            told.field = receiver.member_of(error.field)
            if isinstance(error, _IGNORED):
                return schemas.WebhookAnswer(status="ignored", reason=problem_of(told))
            raise told from error
        return schemas.WebhookAnswer(status=answer.status, feedback=answer)

    return routes


def _received(receiver: Receiver, headers: Mapping[str, str], body: bytes) -> schemas.FeedbackRequest:
    try:
        return receiver.receive(headers, body)
    except pydantic.ValidationError as error:
        first = explain(error.errors(include_url=False)[0], root_of(schemas.FeedbackRequest))
        raise errors.InvalidInputError(first.reason, receiver.member_of(first.field)) from None

"""`POST /webhooks/feedback`: the same feedback, from whoever signs it."""

from collections.abc import Mapping
from typing import Any

import pydantic
from fastapi import APIRouter, Request

from service import errors
from service.api.responses.problems import problem_of, problem_of_validation, responses
from service.api.responses.strict_route import StrictRoute
from service.compute import Compute
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Verifier, read_feedback
from service.schemas.rounds import FeedbackRequest, WebhookAnswer

# Sent again, it would fare no better: a sender that hears of an error tries for days, and then gives up on us.
_IGNORED = (
    errors.ModelNotFoundError,
    errors.PredictionNotFoundError,
    errors.PredictionExpiredError,
    errors.BrokenPredictionError,
)

_COST_PER_BYTE = 50  # multiply-adds in the time that a byte takes to be verified and read

_SCHEMA = {"$ref": "#/components/schemas/FeedbackRequest"}
_HEADERS = {
    "webhook-id": "Names the message, the same however often it is sent.",
    "webhook-timestamp": "Seconds since the epoch when it was sent, at most five minutes ago.",
    "webhook-signature": "`v1,` and the base64 of an HMAC-SHA256; several are separated by blanks.",
}
_DOCUMENTED: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _SCHEMA}}},
    "parameters": [
        {"name": name, "in": "header", "required": True, "description": about, "schema": {"type": "string"}}
        for name, about in _HEADERS.items()
    ],
}
_ERRORS = responses(
    errors.SignatureError,
    errors.FeedbackConflictError,
    errors.UnknownLabelError,
    errors.WrongTruthError,
    errors.InconsistentFeedbackError,
    errors.LabelNeededError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)


def router(rounds: RoundService, verifier: Verifier, compute: Compute) -> APIRouter:
    """The route of webhooks.

    Args:
        rounds: takes their feedback.
        verifier: knows who may sign them.
        compute: reads large ones.
    """
    routes = APIRouter(tags=["rounds"], route_class=StrictRoute)

    @routes.post("/webhooks/feedback", summary="Receive a webhook", responses=_ERRORS, openapi_extra=_DOCUMENTED)
    async def webhook_feedback(request: Request) -> WebhookAnswer:
        """Takes feedback that is signed as Standard Webhooks 1.0 has it.

        The body is that of `POST /feedback`, or an event with it as `data`: a CloudEvent (structured or binary, in
        JSON), or an object with `type` and `data`. Feedback for a prediction that is not there, or no more, or
        whose record is damaged, is `ignored`: an error would only have it sent again.
        """
        verifier.check_headers(request.headers)  # before the body, which a sender without a secret may never end
        body = await request.body()
        cost = len(body) * _COST_PER_BYTE
        feedback = await compute.run_costly(cost, "", _verified, verifier, request.headers, body)
        try:
            return await _give(rounds, feedback)
        except _IGNORED as error:
            return WebhookAnswer(status="ignored", reason=problem_of(error))

    return routes


def _verified(verifier: Verifier, headers: Mapping[str, str], body: bytes) -> FeedbackRequest:
    verifier.verify(headers, body)
    try:
        return read_feedback(headers, body)
    except pydantic.ValidationError as error:
        problem = problem_of_validation(error.errors(include_url=False, include_input=False))
        raise errors.InvalidInputError(problem.detail, problem.field) from None


async def _give(rounds: RoundService, feedback: FeedbackRequest) -> WebhookAnswer:
    answer = await rounds.give_feedback(feedback)
    return WebhookAnswer(status=answer.status, feedback=answer)

"""`POST /webhooks/feedback`: signed feedback."""

from collections.abc import Mapping
from typing import Any

import pydantic
from fastapi import APIRouter, Request

from service import errors, input_errors
from service.api.responses.problems import problem_of, responses
from service.api.responses.strict_route import StrictRoute
from service.compute import Compute
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Verifier, read_feedback
from service.schemas.rounds import FeedbackRequest, WebhookAnswer
from service.wording.json_schemas import root_of
from service.wording.validation import explain

# A retry would fail again. A sender that receives errors retries for days, then disables the webhook.
_IGNORED = (
    errors.ModelNotFoundError,
    errors.PredictionNotFoundError,
    errors.PredictionExpiredError,
    errors.BrokenPredictionError,
    errors.HistoryLostError,
)

_COST_PER_BYTE = 50  # cost of verifying and reading a byte, in multiply-adds

_SCHEMA = {"$ref": "#/components/schemas/FeedbackRequest"}
_HEADERS = {
    "webhook-id": "The id of the message, the same for every attempt.",
    "webhook-timestamp": "When the message was sent, in seconds since the epoch; at most five minutes ago.",
    "webhook-signature": "`v1,` and the base64 of an HMAC-SHA256; separate several with spaces.",
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
    errors.NotActivatedError,
    input_errors.UnknownLabelError,
    input_errors.WrongTruthError,
    input_errors.InconsistentFeedbackError,
    input_errors.LabelNeededError,
    input_errors.RewardNotAloneError,
    input_errors.RewardNotAcceptedError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)


def router(rounds: RoundService, verifier: Verifier, compute: Compute) -> APIRouter:
    """Return the route of webhooks.

    Args:
        rounds: records the feedback.
        verifier: checks the signatures.
        compute: reads large webhooks.
    """
    routes = APIRouter(tags=["rounds"], route_class=StrictRoute)

    @routes.post("/webhooks/feedback", summary="Receive a webhook", responses=_ERRORS, openapi_extra=_DOCUMENTED)
    async def webhook_feedback(request: Request) -> WebhookAnswer:
        """Record feedback that is signed according to Standard Webhooks 1.0.

        The body is that of `POST /feedback`, or an event that contains it as `data`: a CloudEvent (structured or
        binary, in JSON), or an object with `type` and `data`. Feedback is `ignored` if the prediction is unknown,
        expired or damaged, or has seen changes that the store has lost, because an error would only cause retries.
        Feedback that contradicts what is recorded is 409: it is a fault of the sender.
        """
        verifier.check_headers(request.headers)  # before the body: a sender without a secret may never finish it
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
        first = explain(error.errors(include_url=False)[0], root_of(FeedbackRequest))
        raise input_errors.InvalidInputError(first.reason, first.field) from None


async def _give(rounds: RoundService, feedback: FeedbackRequest) -> WebhookAnswer:
    answer = await rounds.give_feedback(feedback)
    return WebhookAnswer(status=answer.status, feedback=answer)

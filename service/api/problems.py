"""Every error as `application/problem+json` (RFC 9457), with a stable type and the wrong field's name."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from service import errors
from service.schemas import FieldError, Problem

_log = logging.getLogger(__name__)

TYPE_PREFIX = "urn:wager:problem:"
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = "1"


class Kind(NamedTuple):
    """What is fixed about a problem."""

    status: int
    slug: str
    title: str


KINDS: dict[type[errors.WagerError], Kind] = {
    errors.InvalidInputError: Kind(422, "invalid-request", "The request is not valid"),
    errors.ContextLengthError: Kind(422, "wrong-context-length", "The context does not fit the model"),
    errors.NormExceededError: Kind(422, "norm-exceeded", "The context is too long"),
    errors.UnknownLabelError: Kind(422, "unknown-label", "The model has no such label"),
    errors.InconsistentFeedbackError: Kind(422, "inconsistent-feedback", "The feedback contradicts itself"),
    errors.LabelNeededError: Kind(422, "label-needed", "The learner needs the true label"),
    errors.UnknownAlgorithmError: Kind(422, "unknown-algorithm", "There is no such learner"),
    errors.HyperparameterError: Kind(422, "invalid-hyperparameter", "The learner refuses a hyperparameter"),
    errors.ModelTooLargeError: Kind(422, "model-too-large", "The learner's state would be too large"),
    errors.BatchTooLargeError: Kind(422, "batch-too-large", "Too many items in one request"),
    errors.IdentifierError: Kind(422, "invalid-identifier", "The prediction id does not fit"),
    errors.ModelNotFoundError: Kind(404, "model-not-found", "There is no such model"),
    errors.PredictionNotFoundError: Kind(404, "prediction-not-found", "There is no such prediction"),
    # Not 410: a sender of webhooks takes that as a wish to be left alone for ever.
    errors.PredictionExpiredError: Kind(404, "prediction-expired", "The prediction's window has closed"),
    errors.ModelExistsError: Kind(409, "model-exists", "The name is taken"),
    errors.PredictionConflictError: Kind(409, "prediction-conflict", "The id was used with another context"),
    errors.FeedbackConflictError: Kind(409, "feedback-conflict", "Other feedback is on record"),
    errors.StoreUnavailableError: Kind(503, "store-unavailable", "The store does not answer"),
    errors.StoreFullError: Kind(507, "store-full", "The store has no memory left"),
    errors.StoreCorruptError: Kind(500, "store-corrupt", "What is stored cannot be read"),
}

_INVALID = KINDS[errors.InvalidInputError]
_VALIDATION_SLUGS = {
    "finite_number": "not-finite",
    "missing": "missing-field",
    "extra_forbidden": "unknown-field",
    "string_pattern_mismatch": "invalid-name",
    "duplicate_labels": "duplicate-labels",
    "too_few_labels": "too-few-labels",
    "greater_than": "out-of-range",
    "greater_than_equal": "out-of-range",
    "less_than": "out-of-range",
    "less_than_equal": "out-of-range",
    "too_short": "out-of-range",
    "too_long": "out-of-range",
    "string_too_short": "out-of-range",
    "string_too_long": "out-of-range",
    "literal_error": "unknown-choice",
}
_HTTP_KINDS = {
    # The one 400 that FastAPI raises: a body that Python's parser gives up on, as when nested too deeply.
    400: ("invalid-json", "The body is not JSON"),
    404: ("no-such-path", "There is nothing at this path"),
    405: ("method-not-allowed", "The path knows no such method"),
    413: ("body-too-large", "The body is too large"),
}


def problem_of(error: errors.WagerError) -> Problem:
    """The problem that tells of an error."""
    kind = KINDS[type(error)]
    return _problem(kind.status, kind.slug, kind.title, error.detail, error.field)


def problem_of_validation(found: Sequence[Mapping[str, Any]], skip: int = 0) -> Problem:
    """The problem that tells of pydantic's errors, leaving out the first `skip` steps of each path."""
    wrong = [FieldError(field=_path(item["loc"][skip:]), detail=item["msg"]) for item in found]
    first = wrong[0]
    detail = f"{first.field}: {first.detail}" if first.field else first.detail
    problem = _problem(_INVALID.status, _validation_slug(found[0]["type"]), _INVALID.title, detail, first.field)
    return problem.model_copy(update={"errors": wrong})


def too_large(max_bytes: int) -> JSONResponse:
    """The answer to a body over the limit."""
    detail = f"the body is larger than {max_bytes:,} bytes"
    return _response(_problem(413, "body-too-large", "The body is too large", detail))


def _problem(status: int, slug: str, title: str, detail: str, field: str | None = None) -> Problem:
    return Problem(type=TYPE_PREFIX + slug, title=title, status=status, detail=detail, field=field)


def _validation_slug(error_type: str) -> str:
    if error_type.endswith(("_type", "_parsing")):
        return "wrong-type"
    return _VALIDATION_SLUGS.get(error_type, _INVALID.slug)


def _path(steps: Sequence[Any]) -> str | None:
    return ".".join(str(step) for step in steps) or None


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, problem.status, headers=headers, media_type=MEDIA_TYPE)


async def _on_wager_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.WagerError)
    if isinstance(error, errors.StoreCorruptError):
        _log.error("%s", error.detail)
    retry = {"Retry-After": RETRY_AFTER_SECONDS} if KINDS[type(error)].status in (503, 507) else None
    return _response(problem_of(error), retry)


async def _on_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if found[0]["type"] == "json_invalid":
        detail = f"{found[0]['ctx']['error']} at character {found[0]['loc'][-1]}"
        return _response(_problem(400, "invalid-json", "The body is not JSON", detail))
    if isinstance(error.body, bytes):
        detail = "send the body as application/json, and say so in Content-Type"
        return _response(_problem(415, "unsupported-media-type", "The body's type is not known", detail))
    return _response(problem_of_validation(found, skip=1))


async def _on_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    slug, title = _HTTP_KINDS.get(error.status_code, (f"http-{error.status_code}", str(error.detail)))
    return _response(_problem(error.status_code, slug, title, str(error.detail)), error.headers)


async def _on_any_error(_: Request, error: Exception) -> JSONResponse:
    _log.error("unexpected error", exc_info=error)
    return _response(_problem(500, "internal-error", "Something is wrong with the service", "see the service's log"))


def install(app: FastAPI) -> None:
    """Answers every error of the application as a problem."""
    app.add_exception_handler(errors.WagerError, _on_wager_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_any_error)


def responses(*kinds: type[errors.WagerError]) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that may answer these errors, besides those that any may."""
    documented: dict[int | str, dict[str, Any]] = {}
    for status in sorted({422, 503, *(KINDS[kind].status for kind in kinds)}):
        slugs = [kind.slug for error, kind in KINDS.items() if kind.status == status and error in kinds]
        text = ", ".join(f"`{slug}`" for slug in slugs) or {422: "The request is not valid"}.get(status, "Try again")
        documented[status] = {"model": Problem, "description": text, "content": {MEDIA_TYPE: {}}}
    return documented

"""Every error as `application/problem+json` (RFC 9457), with a stable type and the wrong field's name."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service import errors, request_context
from service.api.responses import problem_types
from service.api.responses.headers import SECURITY_HEADERS
from service.api.responses.problem_types import Kind
from service.contexts.registry import NAMES
from service.schemas.problems import FieldError, Problem

_log = logging.getLogger(__name__)

TYPE_PREFIX = "urn:wager:problem:"
MEDIA_TYPE = "application/problem+json"

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

MOST_FIELDS = 20
"""How many wrong fields an answer lists."""


def problem_of(error: errors.WagerError) -> Problem:
    """The problem that tells of an error."""
    return _problem(problem_types.OF_ERROR[type(error)], error.detail, error.field)


def problem_of_validation(found: Sequence[Mapping[str, Any]], skip: int = 0) -> Problem:
    """The problem that tells of pydantic's errors, leaving out the first `skip` steps of each path."""
    wrong = [FieldError(field=_path(item, skip), detail=item["msg"]) for item in found[:MOST_FIELDS]]
    first = wrong[0]
    detail = f"{first.field}: {first.detail}" if first.field else first.detail
    problem = _problem(problem_types.of_validation(found[0]["type"]), detail, first.field)
    return problem.model_copy(update={"errors": wrong})


def answer_to(error: errors.WagerError) -> JSONResponse:
    """The answer that tells of an error."""
    return _response(problem_of(error), _headers(error))


def answer_to_http(error: HTTPException) -> JSONResponse:
    """The answer that tells of an error that has a status of its own."""
    status, detail = error.status_code, str(error.detail)
    kind = problem_types.OF_HTTP.get(status, Kind(status, f"http-{status}", detail))
    return _response(_problem(kind, detail), error.headers)


def too_large(max_bytes: int) -> JSONResponse:
    """The answer to a body over the limit."""
    return _response(_problem(problem_types.BODY_TOO_LARGE, f"the body is larger than {max_bytes:,} bytes"))


def internal_error(headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer where the service itself broke."""
    return _response(_problem(problem_types.INTERNAL_ERROR, "see the service's log"), headers)


def install(app: FastAPI) -> None:
    """Answers every error of the application as a problem."""
    app.add_exception_handler(errors.WagerError, _on_wager_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_any_error)


def responses(*raised: type[errors.WagerError], body: bool = True) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route.

    Args:
        raised: what the route raises, besides the errors of a store that does not answer.
        body: whether the route reads a body or parameters, which may be wrong.
    """
    possible = [problem_types.OF_ERROR[error] for error in (*raised, errors.StoreUnavailableError)]
    possible += [problem_types.INVALID_REQUEST] if body else []
    return {status: _documented(status, possible) for status in sorted({kind.status for kind in possible})}


def documented(*possible: Kind) -> dict[str, dict[str, Any]]:
    """What openapi.json says of answers of these kinds, by status."""
    answers = {str(kind.status): _documented(kind.status, possible) for kind in possible}
    return {status: {name: answer[name] for name in ("description", "content")} for status, answer in answers.items()}


def _documented(status: int, possible: Sequence[Kind]) -> dict[str, Any]:
    names = dict.fromkeys(f"`{kind.slug}`" for kind in possible if kind.status == status)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"model": Problem, "description": ", ".join(names), "content": {MEDIA_TYPE: {"schema": schema}}}


def _problem(kind: Kind, detail: str, field: str | None = None) -> Problem:
    return Problem(type=TYPE_PREFIX + kind.slug, title=kind.title, status=kind.status, detail=detail, field=field)


def _path(found: Mapping[str, Any], skip: int) -> str | None:
    steps = [str(step) for step in found["loc"][skip:] if step not in NAMES]  # the kinds tried
    if found["type"].startswith("union_tag"):  # the path ends before the field that tells the kind
        steps.append("kind")
    return ".".join(steps) or None


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    content = {name: value for name, value in problem.model_dump().items() if value is not None}
    notes = request_context.current.get()
    if notes is not None:
        content["request_id"] = notes.request_id
    return JSONResponse(content, problem.status, headers=headers, media_type=MEDIA_TYPE)


def _headers(error: errors.WagerError) -> dict[str, str] | None:
    """What HTTP wants said beside some errors."""
    match error:
        case errors.UnauthenticatedError():
            return {"WWW-Authenticate": 'Bearer realm="wager"'}
        case errors.ForbiddenError():
            return {"WWW-Authenticate": 'Bearer realm="wager", error="insufficient_scope"'}
        case errors.RateLimitedError() | errors.WrongKeysError():
            return {"Retry-After": str(error.retry_after)}
        case errors.StoreUnavailableError() | errors.StoreFullError() | errors.OverloadedError():
            return {"Retry-After": "1"}
        case errors.NewerVersionError():  # a worker of that version answers
            return {"Retry-After": "1"}
    return None


async def _on_wager_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.WagerError)
    if isinstance(error, errors.StoreCorruptError):
        _log.error("%s", error.detail)
    return answer_to(error)


async def _on_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if found[0]["type"] == "json_invalid":
        detail = f"{found[0]['ctx']['error']} at character {found[0]['loc'][-1]}"
        return _response(_problem(problem_types.INVALID_JSON, detail))
    if isinstance(error.body, bytes):
        detail = "send the body as application/json, and say so in Content-Type"
        return _response(_problem(problem_types.UNSUPPORTED_MEDIA_TYPE, detail))
    return _response(problem_of_validation(found, skip=1))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(_methods_of(request))}
    return answer_to_http(error)


def _methods_of(request: Request) -> list[str]:
    """The methods that some route has at the path of a request; the framework tells those of the first route only."""
    asked = {name: request.scope[name] for name in ("type", "path", "root_path") if name in request.scope}
    routes = request.app.routes
    return [m for m in _METHODS if any(route.matches(asked | {"method": m})[0] is Match.FULL for route in routes)]


async def _on_any_error(_: Request, error: Exception) -> JSONResponse:
    _log.error("unexpected error", exc_info=error)
    return internal_error(SECURITY_HEADERS)  # Starlette gives it outside of all middleware

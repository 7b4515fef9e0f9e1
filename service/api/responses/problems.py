"""Reports errors as `application/problem+json` (RFC 9457), with a stable type and the name of the invalid field."""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service import errors, request_context
from service.api.responses import problem_types
from service.api.responses.evaluation_failures import failure_response, is_ofrep
from service.api.responses.problem_types import Kind
from service.error_messages.json_schemas import Root, root_of
from service.error_messages.json_text import syntax_error, unreadable
from service.error_messages.validation import explain, shown_field
from service.error_messages.values import quoted
from service.json_values import JsonMapping, JsonObject
from service.schemas.problems import FieldError, Problem

_log = logging.getLogger(__name__)

TYPE_PREFIX = "urn:wager:problem:"
MEDIA_TYPE = "application/problem+json"

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

MOST_FIELDS = 20  # maximum invalid fields that a problem lists


class InvalidBodyError(errors.InvalidInputError):
    """One or more fields of a body are invalid; `problem` lists them."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail, problem.field)
        self.problem = problem


def problem_of(error: errors.WagerError) -> Problem:
    """Return the problem that reports an error. If the error names a field, the detail begins with it."""
    if isinstance(error, InvalidBodyError):
        return error.problem
    detail = error.detail if error.field is None else f"{shown_field(error.field)}: {error.detail}"
    return _problem(problem_types.OF_ERROR[type(error)], detail, error.field)


def problem_of_validation(
    found: Sequence[JsonMapping], root: Root, skip: int = 0, most: int = MOST_FIELDS, whole: str = "the body"
) -> Problem:
    """Return a problem that lists the first `most` of pydantic's errors.

    `root` is the schema of the value. The path of each error leads to that value in its first `skip` steps, which are
    omitted. `whole` names the value in an error without further steps.
    """
    wrong = [explain(item, root, skip) for item in found[:most]]
    listed = [FieldError(field=each.field, detail=each.sentence(whole)) for each in wrong]
    problem = _problem(problem_types.of_validation(wrong[0].type), listed[0].detail, wrong[0].field)
    return problem.model_copy(update={"errors": listed})


def answer_to(error: errors.WagerError) -> JSONResponse:
    """Return the response to an error."""
    if isinstance(error, errors.BudgetError):
        request_context.note_refusal(error.budget)
    return _response(problem_of(error), _headers(error))


def answer_to_http(error: HTTPException) -> JSONResponse:
    """Return the response to an HTTP error."""
    status, detail = error.status_code, str(error.detail)
    kind = problem_types.OF_HTTP.get(status, Kind(status, f"http-{status}", detail))
    return _response(_problem(kind, detail), error.headers)


def internal_error() -> JSONResponse:
    """Return the response to an unexpected error, after which the server closes the connection."""
    problem = _problem(problem_types.INTERNAL_ERROR, "the log of the service has the cause, under this request_id")
    return _response(problem, {"Connection": "close"})


def wrong_media_type(request: Request, wanted: str) -> HTTPException:
    """Return the error of a request whose body does not have the wanted media type."""
    given = request.headers.get("content-type")
    received = "no Content-Type" if given is None else f"Content-Type {quoted(given)}"
    return HTTPException(415, f"got {received}; send {wanted}")


def install(app: FastAPI) -> None:
    """Register handlers that answer every error with a problem."""
    app.add_exception_handler(errors.WagerError, _on_wager_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_any_error)


def responses(*raised: type[errors.WagerError], body: bool = True) -> dict[int | str, JsonObject]:
    """Return a route's `responses`: for these errors, StoreUnavailableError and, with `body`, InvalidInputError."""
    possible = [problem_types.OF_ERROR[error] for error in (*raised, errors.StoreUnavailableError)]
    possible += [problem_types.INVALID_REQUEST] if body else []
    return {status: _documented(status, possible) for status in sorted({kind.status for kind in possible})}


def documented(*possible: Kind) -> dict[str, JsonObject]:
    """Return the responses for these kinds of problems in openapi.json, by status."""
    return {str(kind.status): _documented(kind.status, possible) for kind in possible}


def _documented(status: int, possible: Sequence[Kind]) -> JsonObject:
    names = sorted({f"`{kind.slug}`" for kind in possible if kind.status == status})
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": ", ".join(names), "content": {MEDIA_TYPE: {"schema": schema}}}


def _problem(kind: Kind, detail: str, field: str | None = None) -> Problem:
    return Problem(type=TYPE_PREFIX + kind.slug, title=kind.title, status=kind.status, detail=detail, field=field)


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    notes = request_context.current.get()
    if notes is not None and is_ofrep(notes.path):
        return failure_response(problem, notes.path, headers)
    content = {name: value for name, value in problem.model_dump().items() if value is not None}
    if notes is not None:
        content["request_id"] = notes.request_id
    return JSONResponse(content, problem.status, headers=headers, media_type=MEDIA_TYPE)


def _headers(error: errors.WagerError) -> dict[str, str] | None:
    if isinstance(error, errors.UnauthenticatedError):
        return {"WWW-Authenticate": 'Bearer realm="wager"'}
    if isinstance(error, errors.ForbiddenError):
        return {"WWW-Authenticate": 'Bearer realm="wager", error="insufficient_scope"'}
    return None if error.retry_after is None else {"Retry-After": str(error.retry_after)}


def _schema_of(route: APIRoute, part: str) -> Root:
    """Return the schema of the "body", the "path" or the "query" of a route's requests."""
    if part == "body" and route.body_field is not None:
        body: Any = route.body_field.field_info.annotation
        return root_of(body)
    parameters = {"path": route.dependant.path_params, "query": route.dependant.query_params}.get(part, [])
    properties = {each.alias: _schema(each.field_info) for each in parameters}
    return Root({"type": "object", "properties": properties}, {})


def _schema(field: Any) -> JsonObject:
    return TypeAdapter(Annotated[field.annotation, field]).json_schema()


async def _on_wager_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.WagerError)
    if isinstance(error, errors.StoreCorruptError):
        _log.error("%s", error.detail)
    return answer_to(error)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    part, *path = found[0]["loc"]
    if found[0]["type"] == "json_invalid":
        detail = f"the body is not JSON: {syntax_error(found[0]['ctx']['error'], path[-1])}"
        return _response(_problem(problem_types.INVALID_JSON, detail))
    if isinstance(error.body, bytes):
        return answer_to_http(wrong_media_type(request, "JSON with Content-Type application/json"))
    return _response(problem_of_validation(found, _schema_of(request.scope["route"], part), skip=1))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        error = HTTPException(400, f"the body is not JSON: {unreadable(error.__cause__)}")
    if error.status_code == 404:
        error = HTTPException(404, f"there is nothing at the path {quoted(request.url.path)}")
    if error.status_code == 405:
        allowed = ", ".join(_methods_of(request))
        error = HTTPException(405, f"got {quoted(request.method)}; the path allows {allowed}", {"Allow": allowed})
    return answer_to_http(error)


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes at a path: Starlette's 405 lists those of one route only."""
    asked = {name: request.scope[name] for name in ("type", "path", "root_path") if name in request.scope}
    routes = request.app.routes
    found = [m for m in _METHODS if any(route.matches(asked | {"method": m})[0] is Match.FULL for route in routes)]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found


async def _on_any_error(_: Request, error: Exception) -> JSONResponse:
    _log.error("unexpected error", exc_info=error)
    return internal_error()

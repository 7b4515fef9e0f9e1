"""Errors of OFREP, the protocol of OpenFeature: every error at its paths has the shape that its clients read."""

from collections.abc import Mapping

from fastapi.responses import JSONResponse

from service.json_values import JsonObject
from service.schemas.ofrep import TARGETING_KEY, ErrorCode, EvaluationFailure
from service.schemas.problems import Problem

_ROOT = "/ofrep/"
EVALUATIONS = "/ofrep/v1/evaluate/flags"
_INVALID = 422  # a status that the protocol does not have


def is_ofrep(path: str) -> bool:
    """Check whether a path, which may begin with /v1, belongs to the protocol."""
    return path.removeprefix("/v1").startswith(_ROOT)


def is_evaluation(path: str) -> bool:
    """Check whether a path, without /v1, is that of an evaluation of one flag or of all bulk flags."""
    return path == EVALUATIONS or path.startswith(f"{EVALUATIONS}/")


def failure_of(problem: Problem, key: str | None) -> EvaluationFailure:
    """Return the failure that reports a problem of the flag with this key, or of a bulk evaluation."""
    code = "FLAG_NOT_FOUND" if problem.status == 404 and key is not None else _code_of(problem)
    return EvaluationFailure(code, problem.detail, key)


def failure_response(problem: Problem, path: str, headers: Mapping[str, str] | None) -> JSONResponse:
    """Return the response that reports a problem of the request at a path of the protocol."""
    failure = failure_of(problem, _key_in(path))
    key = {} if failure.key is None else {"key": failure.key}
    content = {**key, "errorCode": failure.errorCode, "errorDetails": failure.errorDetails}
    status = 400 if problem.status == _INVALID else problem.status
    return JSONResponse(content, status, headers=headers)


def _code_of(problem: Problem) -> ErrorCode:
    slug, is_no_object = problem.type.rpartition(":")[2], problem.field is None and problem.errors
    if slug == "invalid-json" or is_no_object:
        return "PARSE_ERROR"
    if problem.status != _INVALID:
        return "GENERAL"
    if (problem.field, slug) == (TARGETING_KEY, "missing-field"):
        return "TARGETING_KEY_MISSING"
    return "INVALID_CONTEXT" if (problem.field or "").partition(".")[0] == "context" else "GENERAL"


def _key_in(path: str) -> str | None:
    _, found, key = path.removeprefix("/v1").partition(f"{EVALUATIONS}/")
    return key if found else None


def describe_failures(api: JsonObject) -> None:
    """Replace the problems of the protocol's operations in openapi.json by failures."""
    schema = {"$ref": "#/components/schemas/EvaluationFailure"}
    for path, item in api["paths"].items():
        for operation in item.values() if is_ofrep(path) else ():
            answers = operation["responses"]
            statuses = {400 if int(status) == _INVALID else int(status) for status in answers}
            good = {status: answer for status, answer in answers.items() if int(status) < 400}
            failures = {
                str(status): {"description": _codes_at(status), "content": {"application/json": {"schema": schema}}}
                for status in sorted(statuses)
                if status >= 400
            }
            operation["responses"] = good | failures


def _codes_at(status: int) -> str:
    codes = {400: ("GENERAL", "INVALID_CONTEXT", "PARSE_ERROR", "TARGETING_KEY_MISSING"), 404: ("FLAG_NOT_FOUND",)}
    return ", ".join(f"`{code}`" for code in codes.get(status, ("GENERAL",)))

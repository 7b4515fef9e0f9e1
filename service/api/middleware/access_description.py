"""Adds to openapi.json the key that each operation needs, and the problems of refused requests and bodies."""

from typing import Any

from fastapi import FastAPI

from service import errors
from service.api.middleware.access import need_of
from service.api.responses import problem_types
from service.api.responses.openapi_change import change_openapi
from service.api.responses.problems import documented

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `wk_...`. Required unless the service runs without keys.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same key, in another header.",
    },
}
_REFUSALS = documented(
    *(
        problem_types.OF_ERROR[error]
        for error in (
            errors.UnauthenticatedError,
            errors.ForbiddenError,
            errors.RateLimitedError,
            errors.WrongKeysError,
            errors.OverloadedError,
            errors.StoreUnavailableError,
        )
    )
)
_OF_PAGES = documented(problem_types.OF_ERROR[errors.UnknownHostError])
"""Where no keys are required, the page of another site is refused. A read is not, if its host is the service's."""
_OF_WRITING_PAGES = documented(problem_types.OF_ERROR[errors.ForeignOriginError])
_OF_ANY_BODY = (problem_types.OF_HTTP[408], problem_types.BODY_TOO_LARGE)
_OF_BODIES = documented(*_OF_ANY_BODY, problem_types.INVALID_JSON, problem_types.UNSUPPORTED_MEDIA_TYPE)
_OF_WEBHOOKS = documented(*_OF_ANY_BODY, problem_types.OF_ERROR[errors.OverloadedError])
"""The signature of a webhook is checked first. A webhook that is not JSON is refused with `invalid-request`."""


def describe_access(app: FastAPI) -> None:
    """Add the keys and the problems of refused requests to the application's openapi.json."""
    change_openapi(app, _describe)


def _describe(api: dict[str, Any]) -> None:
    api["components"]["securitySchemes"] = _SCHEMES
    for path, item in api["paths"].items():
        for method, operation in item.items():
            need = need_of(method.upper(), path)
            operation["security"] = [] if need is None else [{scheme: [need.scope]} for scheme in _SCHEMES]
            _add(operation["responses"], {} if need is None else _REFUSALS)
            _add(operation["responses"], _OF_PAGES if method == "get" else _OF_PAGES | _OF_WRITING_PAGES)
            if "requestBody" in operation:
                _add(operation["responses"], _OF_WEBHOOKS if need is None else _OF_BODIES)


def _add(answers: dict[str, Any], more: dict[str, Any]) -> None:
    for status, added in more.items():
        there = answers.setdefault(status, dict(added))
        names = [*there["description"].split(", "), *added["description"].split(", ")]
        there["description"] = ", ".join(dict.fromkeys(names))
    ordered = sorted(answers.items())
    answers.clear()
    answers.update(ordered)

"""What openapi.json says of access: which key each operation needs, and how it is refused."""

from typing import Any

from fastapi import FastAPI

from service import errors
from service.api.access import need_of
from service.api.problems import responses

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `wk_...`. Needed unless the service was started to answer without.",
    },
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key, where that suits."},
}
_REFUSALS = responses(
    errors.UnauthenticatedError, errors.ForbiddenError, errors.RateLimitedError, errors.OverloadedError, body=False
)


def describe_access(app: FastAPI) -> None:
    """Adds it to the description that the application gives of itself."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _with_access(plain())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _with_access(api: dict[str, Any]) -> dict[str, Any]:
    api["components"]["securitySchemes"] = _SCHEMES
    for path, item in api["paths"].items():
        for method, operation in item.items():
            need = need_of(method.upper(), path)
            operation["security"] = [] if need is None else [{scheme: [need.scope]} for scheme in _SCHEMES]
            if need is not None:
                _add_refusals(operation["responses"])
    return api


def _add_refusals(answers: dict[str, Any]) -> None:
    refusals = {status: _documented(status) for status in ("401", "403", "429", "503")}
    for status, refusal in refusals.items():
        if status in answers:
            names = [*answers[status]["description"].split(", "), *refusal["description"].split(", ")]
            answers[status]["description"] = ", ".join(dict.fromkeys(names))
        else:
            answers[status] = refusal
    # In the order of their numbers, good ones first.
    ordered = sorted(answers.items())
    answers.clear()
    answers.update(ordered)


def _documented(status: str) -> dict[str, Any]:
    return {name: value for name, value in _REFUSALS[int(status)].items() if name != "model"}

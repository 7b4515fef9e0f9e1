"""Completes and serves openapi.json: adds API keys, refusals, and links between operations."""

import asyncio
import json

from fastapi import FastAPI, Request, Response

from service import errors
from service.api.middleware.access import need_of
from service.api.responses import problem_types
from service.api.responses.evaluation_failures import describe_failures
from service.api.responses.problems import documented
from service.compute import Compute
from service.json_values import JsonObject
from service.schemas.problems import Problem

_NAME = {"path.name": "$response.body#/name"}
_SAME_NAME = {"path.name": "$request.path.name"}
_ETAG = {"header.if-match": "$response.header.ETag"}
_PREDICTION = {"prediction_id": "$response.body#/prediction_id"}

_WITH_NAME = (
    *("get_model", "read_statistics", "list_rounds", "list_imports", "list_changes", "list_snapshots", "list_shadows"),
    *("list_predictions", "evaluate_model", "export_model", "delete_model", "take_snapshot", "put_shadow"),
    *("clone_model", "import_rounds", "explain"),
)
_CONDITIONAL = ["change_model", "reset", "roll_back", "promote"]


def _to(operation: str, parameters: dict[str, str] | None = None, body: JsonObject | None = None) -> JsonObject:
    link: JsonObject = {"operationId": operation}
    return link | ({"parameters": parameters} if parameters else {}) | ({"requestBody": body} if body else {})


_OF_MODEL = (
    *(_to(operation, _NAME) for operation in _WITH_NAME),
    *(_to(operation, _NAME | _ETAG) for operation in _CONDITIONAL),
    *(_to(operation, body={"model": "$response.body#/name"}) for operation in ("predict", "predict_batch")),
)
_OF_COPY = (_to("get_model", _NAME), _to("delete_model", _NAME), _to("predict", body={"model": "$response.body#/name"}))
_OF_CHANGE = tuple(_to(operation, _SAME_NAME | _ETAG) for operation in _CONDITIONAL)
_OF_SHADOW = _SAME_NAME | {"path.shadow": "$request.path.shadow"}

_LINKS: dict[tuple[str, str], tuple[JsonObject, ...]] = {
    ("create_model", "201"): _OF_MODEL,
    ("clone_model", "201"): _OF_COPY,
    ("import_model", "201"): _OF_COPY,
    ("get_model", "200"): _OF_CHANGE,
    ("change_model", "200"): _OF_CHANGE,
    ("predict", "200"): (
        *(_to(operation, body=_PREDICTION) for operation in ("feedback", "activate")),
        _to("explain_prediction", {"path.prediction_id": "$response.body#/prediction_id"}),
    ),
    ("activate", "200"): (_to("feedback", body={"prediction_id": "$request.body#/prediction_id"}),),
    ("take_snapshot", "201"): (
        _to("roll_back", _SAME_NAME, {"snapshot": "$response.body#/id"}),
        _to("delete_snapshot", _SAME_NAME | {"path.snapshot": "$response.body#/id"}),
    ),
    ("put_shadow", "200"): (
        _to("get_shadow", _OF_SHADOW),
        _to("delete_shadow", _OF_SHADOW),
        _to("promote", _SAME_NAME, {"shadow": "$request.path.shadow"}),
    ),
}
"""The links of responses, by operation and status."""


def complete_openapi(app: FastAPI) -> None:
    """Extend the application's openapi.json with the schema of batch items, and with links, API keys and refusals."""
    plain = app.openapi

    def complete() -> JsonObject:
        if app.openapi_schema is None:
            api = plain()
            schemas = api["components"]["schemas"]
            items = schemas["PredictBatchRequest"]["properties"]["items"]["anyOf"][0]
            items["items"] = {"$ref": "#/components/schemas/PredictItem"}
            feedback = schemas["FeedbackBatchRequest"]["properties"]["feedback"]
            feedback["items"] = {"$ref": "#/components/schemas/FeedbackRequest"}
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
            api["components"]["schemas"] |= {**problem.pop("$defs"), "Problem": problem}
            _link(api)
            _describe_access(api)
            describe_failures(api)
            app.openapi_schema = api
        return app.openapi_schema

    app.openapi = complete  # type: ignore[method-assign]


def serve_openapi(app: FastAPI, compute: Compute) -> None:
    """Serve `openapi.json`. A thread builds it at the first request, which takes 0.4 s of processor time."""
    turn, built = asyncio.Lock(), list[bytes]()

    async def openapi(_request: Request) -> Response:
        async with turn:
            if not built:
                built.append(await compute.run("", _encoded, app))
        return Response(built[0], media_type="application/json")

    app.add_route("/openapi.json", openapi, include_in_schema=False)


def _encoded(app: FastAPI) -> bytes:
    return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()


def _link(api: JsonObject) -> None:
    operations = {each["operationId"]: each for item in api["paths"].values() for each in item.values()}
    for (operation, status), links in _LINKS.items():
        answer = operations[operation]["responses"][status]
        answer["links"] = {link["operationId"]: link for link in links}


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
_REFUSED: tuple[type[errors.WagerError], ...] = (
    *(errors.UnauthenticatedError, errors.ForbiddenError, errors.RateLimitedError, errors.WrongKeysError),
    *(errors.ComputeSpentError, errors.OpenBytesSpentError),
    *(errors.OverloadedError, errors.StoreUnavailableError, errors.StoreFullError),
)
_REFUSALS = documented(*map(problem_types.OF_ERROR.__getitem__, _REFUSED))
_OF_PAGES = documented(problem_types.OF_ERROR[errors.UnknownHostError])
"""If no keys are required, requests with an unknown `Host` are refused, and so are writes from a foreign `Origin`."""
_OF_WRITING_PAGES = documented(problem_types.OF_ERROR[errors.ForeignOriginError])
_OF_ANY_BODY = (problem_types.OF_HTTP[408], problem_types.BODY_TOO_LARGE)
_OF_BODIES = documented(*_OF_ANY_BODY, problem_types.INVALID_JSON, problem_types.UNSUPPORTED_MEDIA_TYPE)
_OF_WEBHOOKS = documented(*_OF_ANY_BODY, problem_types.OF_ERROR[errors.OverloadedError])
"""A webhook may have any Content-Type. If its body is not JSON, the webhook is refused with `invalid-request`."""


def _describe_access(api: JsonObject) -> None:
    api["components"]["securitySchemes"] = _SCHEMES
    for path, item in api["paths"].items():
        for method, operation in item.items():
            need = need_of(method.upper(), path)
            operation["security"] = [] if need is None else [{scheme: [need.scope]} for scheme in _SCHEMES]
            _add(operation["responses"], {} if need is None else _REFUSALS)
            _add(operation["responses"], _OF_PAGES if method == "get" else _OF_PAGES | _OF_WRITING_PAGES)
            if "requestBody" in operation:
                _add(operation["responses"], _OF_WEBHOOKS if need is None else _OF_BODIES)


def _add(answers: JsonObject, more: JsonObject) -> None:
    for status, added in more.items():
        existing = answers.setdefault(status, dict(added))
        names = {*existing["description"].split(", "), *added["description"].split(", ")}
        existing["description"] = ", ".join(sorted(names))
    ordered = sorted(answers.items())
    answers.clear()
    answers.update(ordered)

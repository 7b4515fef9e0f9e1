"""Adds links to openapi.json: which operation takes what an answer contains, so that tools can chain requests."""

from typing import Any

from fastapi import FastAPI

from service.api.responses.openapi_change import change_openapi

_NAME = {"path.name": "$response.body#/name"}
_SAME_NAME = {"path.name": "$request.path.name"}
_ETAG = {"header.if-match": "$response.header.ETag"}
_PREDICTION = {"prediction_id": "$response.body#/prediction_id"}

_READING = (
    "get_model",
    "read_statistics",
    "list_rounds",
    "list_imports",
    "list_changes",
    "list_snapshots",
    "list_shadows",
    "list_predictions",
    "evaluate_model",
    "export_model",
)
_CHANGING = ("delete_model", "take_snapshot", "put_shadow", "clone_model", "import_rounds", "explain")
_CONDITIONAL = ("change_model", "reset", "roll_back", "promote")


def _to(operation: str, parameters: dict[str, str] | None = None, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return one link; a body may have further members."""
    link: dict[str, Any] = {"operationId": operation}
    return link | ({"parameters": parameters} if parameters else {}) | ({"requestBody": body} if body else {})


_OF_MODEL = (
    *(_to(operation, _NAME) for operation in (*_READING, *_CHANGING)),
    *(_to(operation, _NAME | _ETAG) for operation in _CONDITIONAL),
    *(_to(operation, body={"model": "$response.body#/name"}) for operation in ("predict", "predict_batch")),
)
_OF_COPY = (_to("get_model", _NAME), _to("delete_model", _NAME), _to("predict", body={"model": "$response.body#/name"}))
_OF_CHANGE = tuple(_to(operation, _SAME_NAME | _ETAG) for operation in _CONDITIONAL)
_OF_SHADOW = _SAME_NAME | {"path.shadow": "$request.path.shadow"}

_LINKS: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("create_model", "201"): _OF_MODEL,
    ("clone_model", "201"): _OF_COPY,
    ("import_model", "201"): _OF_COPY,
    ("get_model", "200"): _OF_CHANGE,
    ("change_model", "200"): _OF_CHANGE,
    ("predict", "200"): (_to("feedback", body=_PREDICTION), _to("activate", body=_PREDICTION)),
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
"""The links of an answer, by its operation and status."""


def add_links(app: FastAPI) -> None:
    """Add the links to the application's openapi.json."""
    change_openapi(app, _link)


def _link(api: dict[str, Any]) -> None:
    operations = {each["operationId"]: each for item in api["paths"].values() for each in item.values()}
    for (operation, status), links in _LINKS.items():
        answer = operations[operation]["responses"][status]
        answer["links"] = {link["operationId"]: link for link in links}

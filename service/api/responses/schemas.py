"""Changes to openapi.json, and the JSON Schemas of a route's input."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from service.error_messages.json_schemas import Root, root_of


def change_openapi(app: FastAPI, change: Callable[[dict[str, Any]], None]) -> None:
    """Let a function change the application's openapi.json in place, once, after the changes that were added before."""
    plain = app.openapi

    def changed() -> dict[str, Any]:
        if app.openapi_schema is None:
            api = plain()
            change(api)
            app.openapi_schema = api
        return app.openapi_schema

    app.openapi = changed  # type: ignore[method-assign]


def schema_of(route: APIRoute, part: str) -> Root:
    """Return the schema of the "body", the "path" or the "query" of a route's requests."""
    if part == "body" and route.body_field is not None:
        body: Any = route.body_field.field_info.annotation
        return root_of(body)
    parameters = {"path": route.dependant.path_params, "query": route.dependant.query_params}.get(part, [])
    return Root({"type": "object", "properties": {each.alias: _schema(each.field_info) for each in parameters}}, {})


def _schema(field: Any) -> dict[str, Any]:
    return TypeAdapter(Annotated[field.annotation, field]).json_schema()


_ITEM = {"$ref": "#/components/schemas/PredictItem"}


def share_schemas(app: FastAPI) -> None:
    """Let the items of `/predict/batch` refer to the schema of an item."""
    change_openapi(app, _share)


def _share(api: dict[str, Any]) -> None:
    items = api["components"]["schemas"]["PredictBatchRequest"]["properties"]["items"]
    items["anyOf"][0]["items"] = _ITEM

"""The JSON Schemas of a route's input: body, path parameters and query parameters."""

from typing import Annotated, Any

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from service.wording.json_schemas import Root, root_of


def schema_of(route: APIRoute, part: str) -> Root:
    """Return the schema of one part of a route's requests.

    Args:
        route: the route.
        part: "body", "path" or "query".
    """
    if part == "body" and route.body_field is not None:
        body: Any = route.body_field.field_info.annotation
        return root_of(body)
    parameters = {"path": route.dependant.path_params, "query": route.dependant.query_params}.get(part, [])
    return Root({"type": "object", "properties": {each.alias: _schema(each.field_info) for each in parameters}}, {})


def _schema(field: Any) -> dict[str, Any]:
    return TypeAdapter(Annotated[field.annotation, field]).json_schema()

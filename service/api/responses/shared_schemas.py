"""Names the schema of the items of a batch in openapi.json, which the framework would repeat inline."""

from typing import Any

from fastapi import FastAPI

_ITEM = {"$ref": "#/components/schemas/PredictItem"}


def share_schemas(app: FastAPI) -> None:
    """Let the items of `/predict/batch` refer to the schema of an item."""
    plain = app.openapi

    def shared() -> dict[str, Any]:
        if app.openapi_schema is None:
            api = plain()
            items = api["components"]["schemas"]["PredictBatchRequest"]["properties"]["items"]
            items["anyOf"][0]["items"] = _ITEM
            app.openapi_schema = api
        return app.openapi_schema

    app.openapi = shared  # type: ignore[method-assign]

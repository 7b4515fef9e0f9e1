"""Names the schema of the items of a batch in openapi.json, which the framework would repeat inline."""

from typing import Any

from fastapi import FastAPI

from service.api.responses.openapi_change import change_openapi

_ITEM = {"$ref": "#/components/schemas/PredictItem"}


def share_schemas(app: FastAPI) -> None:
    """Let the items of `/predict/batch` refer to the schema of an item."""
    change_openapi(app, _share)


def _share(api: dict[str, Any]) -> None:
    items = api["components"]["schemas"]["PredictBatchRequest"]["properties"]["items"]
    items["anyOf"][0]["items"] = _ITEM

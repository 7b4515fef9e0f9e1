"""Changes openapi.json after the framework has built it."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI


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

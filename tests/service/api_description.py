"""openapi.json as the tests read it, built once per process because that takes a second."""

from functools import cache
from typing import Any

from service.app import create_app
from service.settings import Settings


@cache
def api_description() -> dict[str, Any]:
    api: dict[str, Any] = create_app(Settings(store_url="unix:///nowhere/valkey.sock", auth="off")).openapi()
    return api

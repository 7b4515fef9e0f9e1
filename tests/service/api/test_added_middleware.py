"""The law of middleware that a user adds: it surrounds every route."""

import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.app import create_app
from service.settings import Settings

PATHS = ["/predict", "/v1/predict/batch", "/feedback", "/feedback/batch", "/activate", "/models", "/livez", "/docs"]
BODIES = [b"{", b"{}", b'{"model":"none","context":[1]}', b'{"prediction_id":"none:1","correct":true}']


class Marked:
    """Adds a header to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `ASGIApp`."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-marked", b"yes")]
            await send(message)

        await self._app(scope, receive, marked)


@pytest.mark.parametrize("tracing", [False, True])
async def test_added_middleware_surrounds_every_route(tracing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so for every body, whichever parser reads it, and whether or not requests are traced."""
    if tracing:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    app = create_app(Settings(store_url="unix:///nowhere/valkey.sock", host="127.0.0.1"))
    app.add_middleware(Marked)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        for path in [*PATHS, "/nothing"]:
            for body in BODIES:
                answer = await client.post(path, content=body, headers={"content-type": "application/json"})
                assert answer.headers["x-marked"] == "yes", path
                assert answer.headers["x-request-id"], path

"""Refuses bodies over a limit, with a problem like every other error.

FastAPI's own limit answers in plain text, outside of the application's error handlers.
"""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import too_large


class BodyLimit:
    """ASGI middleware. A declared length is judged at once, an undeclared one while the body is read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, unless it is known to be too large."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is None:
            return await self._app(scope, self._counting(receive), send)
        if int(declared) > self._max_bytes:
            return await too_large(self._max_bytes)(scope, receive, send)
        return await self._app(scope, receive, send)

    def _counting(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                raise HTTPException(413, f"the body is larger than {self._max_bytes:,} bytes")
            return message

        return counted

"""Refuses bodies that are too large or too slow, with a problem like every other error.

FastAPI's own limit of size answers in plain text, outside of the application's error handlers.
"""

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import too_large


class BodyLimit:
    """ASGI middleware. A declared length is judged at once, an undeclared one while the body is read.

    Args:
        app: what the request is passed on to.
        max_bytes: the largest body.
        max_seconds: the longest time that a body may take to arrive, once it is asked for.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, unless it is known to be too large."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is None:
            return await self._app(scope, self._hurrying(self._counting(receive)), send)
        if int(declared) > self._max_bytes:
            return await too_large(self._max_bytes)(scope, receive, send)
        return await self._app(scope, self._hurrying(receive), send)

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

    def _hurrying(self, receive: Receive) -> Receive:
        deadline: float | None = None
        complete = False

        async def hurried() -> Message:
            nonlocal deadline, complete
            if complete:  # what is waited for now is the end of the connection
                return await receive()
            deadline = deadline or asyncio.get_running_loop().time() + self._max_seconds
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                detail = f"the body did not arrive within {self._max_seconds:g} s"
                raise HTTPException(408, detail, {"Connection": "close"}) from None
            complete = not message.get("more_body", False)
            return message

        return hurried

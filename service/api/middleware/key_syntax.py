"""Syntax of API keys, checked where no keys are required."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.keys import is_well_formed
from service.api.middleware.access import need_of, presented_key
from service.api.responses.problems import answer_to
from service.errors import UnauthenticatedError


class KeySyntax:
    """ASGI middleware for a service without API keys: refuses malformed credentials, as a service with keys does.

    A client that sends them is misconfigured: its requests would fail wherever keys are required. A well-formed key is
    accepted without reading the store. Requests without a key are accepted.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with 401."""
        if scope["type"] != "http" or need_of(scope["method"], scope["path"]) is None:
            return await self._app(scope, receive, send)
        try:
            key = presented_key(scope)
            if key is not None and not is_well_formed(key):
                raise UnauthenticatedError("not an API key; a key reads wk_<12 hex digits>_<64 hex digits>")
        except UnauthenticatedError as error:
            return await answer_to(error)(scope, receive, send)
        return await self._app(scope, receive, send)

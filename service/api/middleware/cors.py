"""Lets pages of some origins call the API from a browser, by the CORS protocol of the Fetch standard."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

ALLOWED_METHODS = ("GET", "POST", "PATCH", "DELETE")
ALLOWED_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-API-Key", "X-Request-ID")
EXPOSED_HEADERS = ("ETag", "Link", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID")

_MAX_AGE_SECONDS = 600


class Cors:
    """ASGI middleware outside the checks of keys, because a preflight request has none. It says nothing secret.

    Requests of other origins, and without an origin, pass unchanged: to them, the service has no CORS.

    Args:
        app: the next application.
        origins: the exact origins, as browsers send them.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._allowed = _Allowed(
            app,
            allow_origins=origins,
            allow_methods=ALLOWED_METHODS,
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=_MAX_AGE_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request of an allowed origin, or pass the request on."""
        allowed = scope["type"] == "http" and any(
            name == b"origin" and value in self._origins for name, value in scope["headers"]
        )
        await (self._allowed if allowed else self._app)(scope, receive, send)


class _Allowed(CORSMiddleware):
    """Starlette's middleware, for allowed origins only."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """List what is allowed, whatever the page asks for: the browser compares."""
        headers = {**self.preflight_headers, "Access-Control-Allow-Origin": request_headers["origin"]}
        return Response(status_code=204, headers=headers)

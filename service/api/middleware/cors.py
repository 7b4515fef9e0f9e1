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


class Cors(CORSMiddleware):
    """Starlette's middleware, for requests of allowed origins only.

    It precedes the checks of keys, because a preflight request has none. It says nothing secret. Requests of other
    origins, and without an origin, pass unchanged: to them, the service has no CORS.

    Args:
        app: answers the requests.
        origins: the exact origins, as browsers send them.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=ALLOWED_METHODS,
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=_MAX_AGE_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `ASGIApp`."""
        if scope["type"] == "http" and Headers(scope=scope).get("origin") in self.allow_origins:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def preflight_response(self, request_headers: Headers) -> Response:
        """List what is allowed, whatever the page asks for: the browser compares."""
        headers = {**self.preflight_headers, "Access-Control-Allow-Origin": request_headers["origin"]}
        return Response(status_code=204, headers=headers)

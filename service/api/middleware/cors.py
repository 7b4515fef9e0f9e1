"""Lets pages of some origins call the API from a browser, by the CORS protocol of the Fetch standard."""

from collections.abc import Awaitable, Callable, Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.middleware.exchange import Exchange

ALLOWED_METHODS = ("GET", "POST", "PATCH", "DELETE")
ALLOWED_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-API-Key", "X-Request-ID")
EXPOSED_HEADERS = ("ETag", "Link", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID")

_MAX_AGE_SECONDS = 600
_GOING_ON = "wager.exchange"  # key of the scope


class Cors:
    """The protocol of the service. It precedes the checks of keys, because a preflight request has none.

    It says nothing secret. Requests of other origins, and without an origin, pass unchanged: to them, the service has
    no CORS.

    Args:
        origins: the exact origins, as browsers send them.
    """

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._allowed = _Allowed(
            _go_on,
            allow_origins=origins,
            allow_methods=ALLOWED_METHODS,
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=_MAX_AGE_SECONDS,
        )

    def applies_to(self, exchange: Exchange) -> bool:
        """Check whether a request comes from a page of an allowed origin."""
        return exchange.headers.get(b"origin") in self._origins

    async def answer(self, exchange: Exchange, go_on: Callable[[Exchange], Awaitable[None]]) -> None:
        """Answer a preflight request, or go on and let the page read the response."""
        exchange.scope[_GOING_ON] = exchange, go_on
        await self._allowed(exchange.scope, exchange.receive, exchange.send)


async def _go_on(scope: Scope, _receive: Receive, send: Send) -> None:
    exchange, go_on = scope.pop(_GOING_ON)
    exchange.wrap(send)
    await go_on(exchange)


class _Allowed(CORSMiddleware):
    """Starlette's middleware, for allowed origins only."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """List what is allowed, whatever the page asks for: the browser compares."""
        headers = {**self.preflight_headers, "Access-Control-Allow-Origin": request_headers["origin"]}
        return Response(status_code=204, headers=headers)

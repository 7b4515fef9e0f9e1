"""Refuses requests while a worker has as many in flight as it takes, so that those it has are answered."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.problems import answer_to
from service.errors import OverloadedError

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})


class InFlight:
    """ASGI middleware. Health is always answered: a busy worker is not a dead one."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, unless there are too many."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            return await self._app(scope, receive, send)
        if self._now >= self._most:
            busy = OverloadedError(f"this worker has {self._most:,} requests in flight, as many as it takes")
            return await answer_to(busy)(scope, receive, send)
        self._now += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            self._now -= 1

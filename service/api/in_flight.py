"""Refuses requests while a worker has as many in flight as it takes, so that those it has are answered.

Requests that need no key have places of their own, a tenth as many: whoever has no key can fill those, and only those.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access import need_of
from service.api.problems import answer_to
from service.errors import OverloadedError

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})
_OPEN_SHARE = 10


class InFlight:
    """ASGI middleware. Health is always answered: a busy worker is not a dead one.

    Args:
        app: what the request is passed on to.
        most: requests in flight; those that need no key have a tenth as many places beside, at least one.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._keyed = _Places(most)
        self._open = _Places(max(1, most // _OPEN_SHARE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, unless there are too many of its kind."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            return await self._app(scope, receive, send)
        places = self._open if need_of(scope["method"], scope["path"]) is None else self._keyed
        if places.taken >= places.most:
            busy = OverloadedError(f"this worker has {places.most:,} such requests in flight, as many as it takes")
            return await answer_to(busy)(scope, receive, send)
        places.taken += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            places.taken -= 1


class _Places:
    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

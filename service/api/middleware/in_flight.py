"""Limits the requests in flight in a worker, so that accepted requests are answered.

Requests that need no key have a separate, ten times smaller limit, so that clients without a key cannot block the
others. At the limit, a new request replaces the oldest one whose body is still arriving, so that slow bodies block
nobody.
"""

import asyncio
from collections.abc import Awaitable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.middleware.access import need_of
from service.api.middleware.body_limit import has_body
from service.api.responses.problems import answer_to, answer_to_http
from service.errors import OverloadedError

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})
_OPEN_SHARE = 10
_LOST = HTTPException(
    408, "the body was still arriving when the worker reached its limit of requests in flight", {"Connection": "close"}
)


class InFlight:
    """ASGI middleware. Health checks bypass it: a busy worker is alive.

    Args:
        app: the next application.
        most: maximum requests in flight. Requests that need no key have an additional tenth, at least one.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._keyed = _Places(most)
        self._open = _Places(max(1, most // _OPEN_SHARE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless too many of its kind are in flight."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            return await self._app(scope, receive, send)
        places = self._open if need_of(scope["method"], scope["path"]) is None else self._keyed
        if places.taken >= places.most and not places.make_room():
            busy = OverloadedError(f"this worker has reached its limit of {places.most:,} such requests in flight")
            return await answer_to(busy)(scope, receive, send)
        if not has_body(scope):
            return await places.hold(self._app(scope, receive, send))
        return await self._let_in(places, scope, receive, send)

    async def _let_in(self, places: "_Places", scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with a body. A newer request may replace it until the body is complete."""
        arrival = _Arrival(asyncio.current_task())
        places.arriving[arrival] = None

        async def noted() -> Message:
            message = await receive()
            if not message.get("more_body", False):
                places.arriving.pop(arrival, None)
            return message

        try:
            await places.hold(self._app(scope, noted, send))
        except asyncio.CancelledError:
            if not arrival.lost_place:
                raise
            await answer_to_http(_LOST)(scope, receive, send)
        finally:
            places.arriving.pop(arrival, None)


class _Arrival:
    """A request whose body is still arriving."""

    def __init__(self, task: "asyncio.Task[None] | None") -> None:
        self._task = task
        self.lost_place = False

    def lose_place(self) -> None:
        """Stop waiting for the body."""
        self.lost_place = True
        if self._task is not None:
            self._task.cancel()


class _Places:
    """The places for one kind of request.

    Attributes:
        arriving: requests whose bodies are still arriving, oldest first.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.arriving: dict[_Arrival, None] = {}

    def make_room(self) -> bool:
        """Cancel the oldest request whose body is still arriving; return whether there was one."""
        oldest = next(iter(self.arriving), None)
        if oldest is None:
            return False
        del self.arriving[oldest]
        oldest.lose_place()
        return True

    async def hold(self, request: "Awaitable[None]") -> None:
        """Run a request while it occupies a place."""
        self.taken += 1
        try:
            await request
        finally:
            self.taken -= 1

"""Observes every request: its id and trace, one log line, one count."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import request_context
from service.api.responses.problems import answer_to, internal_error
from service.errors import StoppingError
from service.observability.request_id import accepted_request_id, trace_id
from service.observability.telemetry import Telemetry
from service.request_context import RequestContext

_UNLOGGED = frozenset(("/livez", "/readyz", "/metrics"))
"""Routes that are polled every few seconds: only failures are logged."""

_UNCHECKED_NAME = (400, 422)
"""Statuses of requests that are refused before the name in their path is checked, or because of it."""


class Observer:
    """ASGI middleware. Only `SecurityHeaders` wraps it, so that it also observes refused requests.

    Args:
        app: the next application.
        telemetry: counts and logs requests, and generates an id for a request without one.
        now: returns seconds of a monotonic clock.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._app = app
        self._metrics, self._log, self._new_id, self._span_trace_id = telemetry
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, then count and log it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, notes, status = self._now(), self._notes(scope), 0
        request_context.current.set(notes)
        answered_id = (b"x-request-id", notes.request_id.encode())

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), answered_id]
            await send(message)

        try:
            await self._app(scope, receive, observed)
        except asyncio.CancelledError:  # the server is stopping and no longer waits
            if status:
                raise
            await answer_to(StoppingError("this worker stopped before it could answer"))(scope, receive, observed)
        except Exception:
            if not status:  # the response had not begun
                await internal_error()(scope, receive, observed)
            status = 500
            raise
        finally:
            self._tell(scope, status or 499, self._now() - started, notes)

    def _notes(self, scope: Scope) -> RequestContext:
        headers = dict(scope["headers"])
        given, traceparent = headers.get(b"x-request-id"), headers.get(b"traceparent")
        request_id = (given and accepted_request_id(given)) or self._new_id()
        if self._span_trace_id is not None:
            return RequestContext(request_id, self._span_trace_id())
        return RequestContext(request_id, None if traceparent is None else trace_id(traceparent))

    def _tell(self, scope: Scope, status: int, seconds: float, notes: RequestContext) -> None:
        # The path template in the router: /predict and /v1/predict share one label, and the labels are bounded.
        route, method = getattr(scope.get("route"), "path", ""), scope["method"]
        self._metrics.count_request(method, route, status, seconds)
        if (status < 500 and route in _UNLOGGED) or not self._log.may_write(status):
            return
        if notes.model is None and route.startswith("/models/") and status not in _UNCHECKED_NAME:
            notes.model = scope["path_params"].get("name")
        self._log.write(method, route, status, seconds, notes)

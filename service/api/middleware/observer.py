"""Observes every request: gives it an id, notes its trace, counts it and logs it."""

import re
from collections.abc import Callable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import request_context
from service.api.middleware.access import Header
from service.error_messages.patterns import NAME
from service.observability.telemetry import Telemetry, accepted_request_id, trace_id
from service.request_context import RequestContext

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Defaults that a response may override. Strict-Transport-Security is left to the proxy that terminates TLS."""

_ADDED = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _ in _ADDED)

_UNLOGGED = frozenset(("/livez", "/readyz", "/metrics"))
"""Routes that are polled every few seconds: only failures (status 500 and above) are logged."""

_is_name = re.compile(NAME).fullmatch
"""Checks the name in a path before it is logged: a refused request may have an invalid one."""


class Observer:
    """Middleware that counts and logs requests, and completes the headers of their responses."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._app = app
        self._metrics, self._log, self._new_id, self._span_trace_id = telemetry
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["method"] == "HEAD":  # handled like GET; the server drops the body (RFC 9110, section 9.3.2)
            scope = {**scope, "method": "GET"}
        began = self._now()
        notes = self._notes(scope)
        request_context.current.set(notes)

        async def completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                notes.status = message["status"]
                headers = _completed(message.get("headers", ()), notes.request_id)
                message = {"type": "http.response.start", "status": notes.status, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, completed)
        except Exception:
            notes.status = 500
            raise
        finally:
            self._end(scope, notes, self._now() - began)

    def _notes(self, scope: Scope) -> RequestContext:
        headers = dict(scope["headers"])
        given, traceparent = headers.get(b"x-request-id"), headers.get(b"traceparent")
        notes = RequestContext((given and accepted_request_id(given)) or self._new_id(), scope["path"])
        if self._span_trace_id is not None:
            notes.trace_id = self._span_trace_id()
        elif traceparent is not None:
            notes.trace_id = trace_id(traceparent)
        return notes

    def _end(self, scope: Scope, notes: RequestContext, seconds: float) -> None:
        # The route is a path template without /v1, so metrics have few labels. Status 499: no response began.
        status, route, method = notes.status or 499, getattr(scope.get("route"), "path", ""), scope["method"]
        self._metrics.count_request(method, route, status, seconds)
        if notes.refused_by is not None and notes.key_id is not None:
            self._metrics.count_refusal(notes.key_id, notes.refused_by)
        if (status < 500 and route in _UNLOGGED) or not self._log.may_write(status):
            return
        if notes.model is None and route.startswith("/models/") and _is_name(scope["path_params"].get("name", "")):
            notes.model = scope["path_params"]["name"]
        self._log.write(method, route, status, seconds, notes)


def _completed(given: Iterable[Header], request_id: str) -> list[Header]:
    headers = list(given)
    existing = {name for name, _ in headers}
    headers.append((b"x-request-id", request_id.encode()))
    return headers + (_ADDED if _NAMES.isdisjoint(existing) else [each for each in _ADDED if each[0] not in existing])

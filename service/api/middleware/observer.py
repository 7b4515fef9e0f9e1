"""Observes every request: its id and trace, one log line, one count."""

import re
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from service import request_context
from service.api.middleware.exchange import Exchange
from service.observability.request_id import accepted_request_id, trace_id
from service.observability.telemetry import Telemetry
from service.request_context import RequestContext
from service.wording.patterns import NAME

_UNLOGGED = frozenset(("/livez", "/readyz", "/metrics"))
"""Routes that are polled every few seconds: only failures are logged."""

_is_name = re.compile(NAME).fullmatch
"""Checks the name in a path: a request may be refused before its name is, or because of it."""


class Observer:
    """Counts and logs requests.

    Args:
        telemetry: counts and logs requests, and generates an id for a request without one.
        now: returns seconds of a monotonic clock.
    """

    def __init__(self, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._metrics, self._log, self._new_id, self._span_trace_id = telemetry
        self._now = now

    def begin(self, scope: Scope, receive: Receive, send: Send) -> Exchange:
        """Begin a request: note its id and trace for everything that handles it."""
        exchange = Exchange(scope, receive, send, RequestContext(""), self._now())
        self._identify(exchange.notes, exchange.headers)
        request_context.current.set(exchange.notes)
        return exchange

    def _identify(self, notes: RequestContext, headers: dict[bytes, bytes]) -> None:
        given, traceparent = headers.get(b"x-request-id"), headers.get(b"traceparent")
        notes.request_id = (given and accepted_request_id(given)) or self._new_id()
        if self._span_trace_id is not None:
            notes.trace_id = self._span_trace_id()
        elif traceparent is not None:
            notes.trace_id = trace_id(traceparent)

    def end(self, exchange: Exchange) -> None:
        """Count a request, and log it if it has a line."""
        # The path template in the router: /predict and /v1/predict share one label, and the labels are bounded.
        scope, status, notes = exchange.scope, exchange.status or 499, exchange.notes
        route, method = getattr(scope.get("route"), "path", ""), scope["method"]
        seconds = self._now() - exchange.started
        self._metrics.count_request(method, route, status, seconds)
        if (status < 500 and route in _UNLOGGED) or not self._log.may_write(status):
            return
        if notes.model is None and route.startswith("/models/") and _is_name(scope["path_params"].get("name", "")):
            notes.model = scope["path_params"]["name"]
        self._log.write(method, route, status, seconds, notes)

"""The telemetry of one worker: metrics, request ids, traces, and the rate-limited request log."""

import itertools
import logging
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from opentelemetry import trace

from service.observability.http_metrics import METHODS, WorkerMetrics
from service.request_context import RequestContext

_log = logging.getLogger("wager.requests")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:+/=@-]{1,128}")
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


def accepted_request_id(given: bytes) -> str | None:
    """Return the value of `X-Request-ID` if it is 1 to 128 letters, digits or `._~:+/=@-`, else None."""
    return given.decode() if _REQUEST_ID.fullmatch(given) else None


def request_ids(noise: bytes) -> Callable[[], str]:
    """Return a function that returns new ids: the noise in hex, then a counter. The ids are not secret."""
    prefix, numbers = noise.hex(), itertools.count()
    return lambda: f"{prefix}{next(numbers):012x}"


def trace_id(traceparent: bytes) -> str | None:
    """Return the trace id of a well-formed `traceparent` header (W3C Trace Context, section 3.2), else None."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, span, more = found.groups()
    valid = version != b"ff" and trace != _NO_TRACE and span != _NO_SPAN and (version != b"00" or more is None)
    return trace.decode() if valid else None


def is_on() -> bool:
    """Check whether OpenTelemetry's environment variables turn traces on."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    wanted = any(os.environ.get(name) for name in endpoints)
    return wanted and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def span_trace_id() -> str | None:
    """Return the id of the current trace, in 32 hexadecimal digits; None if there is no trace."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


class RequestLog:
    """Logs requests, without bodies, headers, queries or raw paths.

    Answers (status below 400) and refusals (400 to 499) have separate quotas of `per_second` lines; `tick` renews them.
    Failures are always logged.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._answers_left = self._refusals_left = per_second
        self._left_out = 0

    def may_write(self, status: int) -> bool:
        """Return whether to log a request of this status. Count it against the quota or, beyond that, as omitted."""
        if status >= 500:
            return True
        if status < 400 and self._answers_left:
            self._answers_left -= 1
            return True
        if status >= 400 and self._refusals_left:
            self._refusals_left -= 1
            return True
        self._left_out += 1
        return False

    def write(self, method: str, route: str, status: int, seconds: float, notes: RequestContext) -> None:
        """Log a request."""
        fields = {
            "method": method if method in METHODS else "other",
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "request_id": notes.request_id,
            "trace_id": notes.trace_id,
            "model": notes.model,
            "key_id": notes.key_id,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        _log.log(logging.ERROR if status >= 500 else logging.INFO, "request", extra=given)

    def tick(self) -> None:
        """Begin a new second; log the number of requests omitted in the last one, if any."""
        self._answers_left = self._refusals_left = self._per_second
        if self._left_out:
            _log.info("requests left out", extra={"count": self._left_out})
            self._left_out = 0


class Telemetry(NamedTuple):
    """Metrics, log, ids and traces of requests."""

    metrics: WorkerMetrics
    log: RequestLog
    new_request_id: Callable[[], str]
    span_trace_id: Callable[[], str | None] | None  # returns the current trace id; None without tracing

    @property
    def tracing(self) -> bool:
        """Whether requests are traced."""
        return self.span_trace_id is not None

    def tick(self) -> None:
        """Publish the counts, and begin a new second of the request log. Call once a second."""
        self.metrics.flush()
        self.log.tick()


def telemetry(log_requests_per_second: int, noise: bytes) -> Telemetry:
    """Build the telemetry of one worker. `noise` must differ in each process: request ids begin with it."""
    traced = is_on()
    if traced:
        os.environ.setdefault("OTEL_SERVICE_NAME", "wager")
    log = RequestLog(log_requests_per_second)
    return Telemetry(WorkerMetrics(), log, request_ids(noise), span_trace_id if traced else None)

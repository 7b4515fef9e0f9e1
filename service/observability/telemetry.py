"""The telemetry of one worker, and the log of requests, which is limited in lines per second."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from service.observability import tracing
from service.observability.http_metrics import METHODS, WorkerMetrics
from service.observability.tracing import request_ids
from service.request_context import RequestContext

_log = logging.getLogger("wager.requests")


class RequestLog:
    """Logs requests, without bodies, headers, queries and raw paths.

    Answers (below 400) and refusals (400 to 499) have separate quotas of lines between two `tick`s. Failures are always
    logged.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._answers_left = self._refusals_left = per_second
        self._left_out = 0

    def may_write(self, status: int) -> bool:
        """Take a line from the quota of a status, or count the request as omitted; return whether to log it."""
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
        """Begin another second; log the number of requests omitted in the last one, if any."""
        self._answers_left = self._refusals_left = self._per_second
        if self._left_out:
            _log.info("requests left out", extra={"count": self._left_out})
            self._left_out = 0


class Telemetry(NamedTuple):
    """Metrics, log, ids and traces of requests."""

    metrics: WorkerMetrics
    log: RequestLog
    new_request_id: Callable[[], str]
    span_trace_id: Callable[[], str | None] | None  # returns the current trace; None without tracing

    @property
    def tracing(self) -> bool:
        """Whether requests are traced."""
        return self.span_trace_id is not None

    def tick(self) -> None:
        """Publish the counts, and begin another second of the log. Call once a second."""
        self.metrics.flush()
        self.log.tick()


def telemetry(log_requests_per_second: int, noise: bytes) -> Telemetry:
    """Build the telemetry of one worker. `noise` differs in each process: request ids begin with it."""
    if tracing.is_on():
        tracing.name_service()
    span_trace_id = tracing.span_trace_id if tracing.is_on() else None
    return Telemetry(WorkerMetrics(), RequestLog(log_requests_per_second), request_ids(noise), span_trace_id)

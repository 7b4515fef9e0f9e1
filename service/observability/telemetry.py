"""The telemetry of one worker."""

from collections.abc import Callable
from typing import NamedTuple

from service.observability import tracing
from service.observability.http_metrics import WorkerMetrics
from service.observability.request_id import request_ids
from service.observability.request_log import RequestLog


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
    """Build the telemetry of one worker.

    Args:
        log_requests_per_second: quota of log lines; failures are always logged.
        noise: prefix of request ids, different in each process.
    """
    if tracing.is_on():
        tracing.name_service()
    span_trace_id = tracing.span_trace_id if tracing.is_on() else None
    return Telemetry(WorkerMetrics(), RequestLog(log_requests_per_second), request_ids(noise), span_trace_id)

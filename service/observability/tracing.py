"""OpenTelemetry traces, by FastAPI's own means; off unless the environment says where to send them.

On where `OTEL_EXPORTER_OTLP_ENDPOINT` is set; the group `otel` of the requirements must be installed then. Metrics are
Prometheus' business, and what is logged stays out of traces.
"""

import os

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from starlette.types import Scope

_UNTRACED = ("/livez", "/readyz", "/metrics")


def is_on() -> bool:
    """Whether traces are wanted."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    wanted = any(os.environ.get(name) for name in endpoints)
    return wanted and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def configuration(on: bool) -> TelemetryConfig:
    """FastAPI's: a span for each request but those of health and metrics, its parent as `traceparent` says."""
    if on:
        os.environ.setdefault("OTEL_SERVICE_NAME", "wager")
    return {
        "tracing": on,
        "auto_configure": on,
        "metrics": False,
        "logs": False,  # messages of exceptions may hold what a client sent
        "operation_spans": False,
        "exclude": _is_untraced,
    }


def span_trace_id() -> str | None:
    """The trace of the request under way, in 32 hexadecimal digits."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def _is_untraced(scope: Scope) -> bool:
    return str(scope["path"]).endswith(_UNTRACED)

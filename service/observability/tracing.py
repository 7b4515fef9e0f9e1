"""OpenTelemetry traces: off unless the environment says where to send them.

On where `OTEL_EXPORTER_OTLP_ENDPOINT` is set; the group `otel` of the requirements must be installed then.
"""

import os

from opentelemetry import trace


def is_on() -> bool:
    """Whether traces are wanted."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    wanted = any(os.environ.get(name) for name in endpoints)
    return wanted and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def name_service() -> None:
    """Give the traces a service's name, where the environment gives none."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "wager")


def span_trace_id() -> str | None:
    """The trace of the request under way, in 32 hexadecimal digits."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None

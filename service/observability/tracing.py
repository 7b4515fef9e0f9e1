"""OpenTelemetry traces.

They are on if `OTEL_EXPORTER_OTLP_ENDPOINT` is set. This needs the extra `otel` of the requirements.
"""

import os

from opentelemetry import trace


def is_on() -> bool:
    """Check whether the environment turns traces on."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    wanted = any(os.environ.get(name) for name in endpoints)
    return wanted and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def name_service() -> None:
    """Set the service name of the traces, unless the environment has one."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "wager")


def span_trace_id() -> str | None:
    """Return the id of the current trace, in 32 hexadecimal digits, or None."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None

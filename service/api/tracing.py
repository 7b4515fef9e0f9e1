"""FastAPI's configuration of traces. Metrics are Prometheus' business, and what is logged stays out of traces."""

from fastapi.telemetry import TelemetryConfig
from starlette.types import Scope

_UNTRACED = ("/livez", "/readyz", "/metrics")


def tracing_configuration(on: bool) -> TelemetryConfig:
    """A span for each request but those of health and metrics, its parent as `traceparent` says."""
    return {
        "tracing": on,
        "auto_configure": on,
        "metrics": False,
        "logs": False,  # messages of exceptions may hold what a client sent
        "operation_spans": False,
        "exclude": _is_untraced,
    }


def _is_untraced(scope: Scope) -> bool:
    return str(scope["path"]).endswith(_UNTRACED)

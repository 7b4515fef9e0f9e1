"""FastAPI's configuration of traces. Prometheus has the metrics, and traces contain no log records."""

from fastapi.telemetry import TelemetryConfig
from starlette.types import Scope

_UNTRACED = ("/livez", "/readyz", "/metrics")


def tracing_configuration(on: bool) -> TelemetryConfig:
    """Return a configuration with a span for each request except health and metrics; `traceparent` names its parent."""
    return {
        "tracing": on,
        "auto_configure": on,
        "metrics": False,
        "logs": False,  # exception messages may contain client data
        "operation_spans": False,
        "exclude": _is_untraced,
    }


def _is_untraced(scope: Scope) -> bool:
    return str(scope["path"]).endswith(_UNTRACED)

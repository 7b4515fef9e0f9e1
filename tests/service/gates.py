"""A gate in front of any ASGI application, with limits that a test sets."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.types import ASGIApp

from service.api.middleware.body_limit import Pace
from service.api.middleware.gate import Gate, Guard, RequestLimits
from service.api.responses.operation import Operation
from service.compute import Compute
from service.observability.http_metrics import WorkerMetrics
from service.observability.request_log import RequestLog
from service.observability.telemetry import Telemetry

PATIENT = Pace(30.0, 5.0, 1000.0)


def gate_over(
    app: ASGIApp,
    pace: Pace = PATIENT,
    body_bytes: int = 1000,
    in_flight: int = 10,
    operations: Mapping[str, Operation] = MappingProxyType({}),
) -> Gate:
    """Return a gate without API keys and CORS, whose clock does not move.

    Args:
        app: answers every request that passes.
        pace: the slowest body that passes.
        body_bytes: maximum bytes of a body.
        in_flight: maximum requests in flight.
        operations: by path.
    """
    telemetry = Telemetry(WorkerMetrics(), RequestLog(0), lambda: "made-1", None)
    limits = RequestLimits(1, body_bytes, body_bytes, pace, in_flight)
    return Gate(app, operations, Guard(telemetry, limits, None), Compute(2), lambda: 0.0)


def scope_of(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Return the scope of a request."""
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}

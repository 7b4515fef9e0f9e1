"""What every request passes, in front of any ASGI application, with limits that a test sets."""

from typing import Any

from starlette.middleware import Middleware
from starlette.types import ASGIApp

from service.api.middleware.body_limit import Pace
from service.api.middleware.pipeline import RequestLimits, RequestPolicy, pipeline
from service.observability.http_metrics import WorkerMetrics
from service.observability.telemetry import RequestLog, Telemetry

PATIENT = Pace(30.0, 5.0, 1000.0)


def layers(pace: Pace = PATIENT, body_bytes: int = 1000, in_flight: int = 10) -> list[Middleware]:
    telemetry = Telemetry(WorkerMetrics(), RequestLog(0), lambda: "made-1", None)
    policy = RequestPolicy(telemetry, RequestLimits(1, body_bytes, body_bytes, pace, in_flight), None)
    return pipeline(policy, lambda: 0.0)


def in_pipeline(app: ASGIApp, pace: Pace = PATIENT, body_bytes: int = 1000, in_flight: int = 10) -> ASGIApp:
    for made, args, kwargs in reversed(layers(pace, body_bytes, in_flight)):
        app = made(app, *args, **kwargs)
    return app


def scope_of(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}

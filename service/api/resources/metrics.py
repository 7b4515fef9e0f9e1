"""`/metrics`, for Prometheus."""

from typing import Any

from fastapi import APIRouter, Response

from service.observability.http_metrics import MEDIA_TYPE, WorkerMetrics
from service.observability.model_metrics import ModelMetrics


def router(models: ModelMetrics, metrics: WorkerMetrics) -> APIRouter:
    """Return the route of metrics."""
    routes = APIRouter(tags=["operations"])
    example = {MEDIA_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
    described: dict[int | str, dict[str, Any]] = {200: {"description": "Prometheus' text format.", "content": example}}

    @routes.get("/metrics", summary="Read metrics", response_class=Response, responses=described)
    async def read_metrics() -> Response:
        """Return the metrics of all workers and models, even while the store is down (`wager_store_up 0`)."""
        return Response(metrics.expose(await models.read()), media_type=MEDIA_TYPE)

    return routes

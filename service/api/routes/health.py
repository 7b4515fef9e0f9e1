"""`/livez`, `/readyz` and `/metrics`, for operators."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Response

from service import kernels
from service.api.responses.problems import responses
from service.api.responses.routes import name_of
from service.errors import LearnerNotReadyError, StoppingError
from service.json_values import JsonObject
from service.observability.http_metrics import MEDIA_TYPE, WorkerMetrics
from service.observability.model_metrics import ModelMetrics
from service.schemas.reports import Health, Readiness
from service.store.capabilities import Store
from service.store.values import StoreReadiness


def router(store: Store, stops: Callable[[], bool]) -> APIRouter:
    """Return the routes `/livez` and `/readyz`; `stops` returns whether this worker is stopping."""
    routes = APIRouter(tags=["operations"], generate_unique_id_function=name_of)
    check = _OneAtATime(store.check)

    @routes.get("/livez", summary="Check liveness")
    async def livez() -> Health:
        """Return 200 while the process runs, regardless of the store."""
        return Health(status="alive")

    @routes.get(
        "/readyz", summary="Check readiness", responses=responses(StoppingError, LearnerNotReadyError, body=False)
    )
    async def readyz() -> Readiness:
        """Return 200 and the store's durability; 503 if the store is unfit, or this worker is starting or stopping.

        A store is unfit if a server refuses a test write, may evict keys, runs no scripts, or lacks replicas. A worker
        is starting until the default learner is compiled.
        """
        if stops():
            raise StoppingError("this worker is stopping: send new requests to another one")
        if not kernels.is_default_ready():
            raise LearnerNotReadyError(
                "the default learner is being compiled for this machine, once after installation"
            )
        readiness, warnings = await check(), list[str]()
        if await store.has_damage():  # readiness needs no key, so it names no model
            warnings.append("some models have unreadable data, which `wager repair` lists")
        warnings += readiness.warnings
        return Readiness(status="ready", store=readiness.version, durability=readiness.persistence, warnings=warnings)

    return routes


class _OneAtATime:
    """A check whose callers share the run in progress: `/readyz` needs no key, and each run costs a write."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, StoreReadiness]]) -> None:
        self._ask = ask
        self._asked: asyncio.Task[StoreReadiness] | None = None

    async def __call__(self) -> StoreReadiness:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
            # Retrieve the exception: asyncio would log it as an error if all callers were gone.
            self._asked.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        return await asyncio.shield(self._asked)


def metrics_router(models: ModelMetrics, metrics: WorkerMetrics) -> APIRouter:
    """Return the route `/metrics`."""
    routes = APIRouter(tags=["operations"], generate_unique_id_function=name_of)
    example = {MEDIA_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
    described: dict[int | str, JsonObject] = {200: {"description": "Prometheus' text format.", "content": example}}

    @routes.get("/metrics", summary="Read metrics", response_class=Response, responses=described)
    async def read_metrics() -> Response:
        """Return metrics of this instance's workers, and of models (`wager_store_up 0` while the store is down)."""
        return Response(metrics.expose(await models.read()), media_type=MEDIA_TYPE)

    return routes

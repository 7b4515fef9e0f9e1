"""Wires settings, store, clock and chance into an application. Nothing else does."""

import asyncio
import base64
import contextlib
import gc
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from fastapi import APIRouter, FastAPI

from learners.registry import warm_up
from service import __version__
from service.access.keys import Gatekeeper
from service.access.wrong_keys import WrongKeys
from service.api.middleware.access import Access
from service.api.middleware.access_description import describe_access
from service.api.middleware.body_limit import BodyLimit, Pace
from service.api.middleware.in_flight import InFlight
from service.api.middleware.observer import Observer
from service.api.resources import docs, feedback, health, learners, models, predictions, webhooks
from service.api.resources import metrics as metrics_api
from service.api.resources import rounds as log
from service.api.responses import problems
from service.api.responses.headers import SecurityHeaders
from service.catalogue.catalogue import Catalogue
from service.compute import Compute
from service.draining import Draining
from service.environment import Environment
from service.models.model import Limits
from service.observability import tracing as telemetry
from service.observability.http_metrics import WorkerMetrics
from service.observability.model_metrics import ModelMetrics
from service.observability.request_id import request_ids
from service.observability.request_log import RequestLog
from service.processes import die_with_parent, spare_lasting_objects
from service.rounds.session_cache import SessionCache
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Verifier
from service.settings import Settings
from service.store.base import Store
from service.store.connections.connections import TlsFiles
from service.store.redis.api_keys import ApiKeyTable
from service.store.redis.rate_limits import RateLimits
from service.store.redis.redis_store import RedisStore
from service.store.redis.traced import traced

Watch: TypeAlias = Callable[[], None]

_UPKEEP_SECONDS = 1.0
_PATIENCE = 0.1  # seconds until a task is cancelled again

_DESCRIPTION = """Predicts one label of K for a context, with a known probability, and learns from one bit:
right or wrong. `POST /models` once, then `POST /predict` and `POST /feedback`, for ever."""


@dataclass(frozen=True)
class Chance:
    """Where a worker's randomness and time come from."""

    rng: np.random.Generator
    now: Callable[[], float]  # seconds since the epoch
    new_id: Callable[[], str]
    monotonic: Callable[[], float] = time.monotonic  # seconds, never going back


def real_chance() -> Chance:
    """The system's clock and randomness."""
    return Chance(np.random.default_rng(), time.time, lambda: new_id(time.time(), os.urandom(9)))


def new_id(seconds: float, noise: bytes) -> str:
    """20 characters: milliseconds since the epoch, then noise (9 bytes) that cannot be guessed."""
    return base64.urlsafe_b64encode(int(seconds * 1000).to_bytes(6, "big") + noise).decode()


def create_app(settings: Settings | None = None, chance: Chance | None = None) -> FastAPI:
    """The application of one worker.

    Args:
        settings: read from the environment if not given; they must name a store.
        chance: the system's if not given.
    """
    die_with_parent()
    settings = settings or Settings()
    chance = chance or real_chance()
    if settings.store_url is None:
        raise ValueError("no store: start the service with `wager serve`, or set WAGER_STORE_URL")
    tls = TlsFiles(settings.store_ca_file, settings.store_cert_file, settings.store_key_file)
    redis = RedisStore(settings.store_url, settings.store_timeout_seconds, tls, settings.wait_replicas)
    store: Store = traced(redis) if telemetry.is_on() else redis
    compute = Compute(settings.compute_threads)
    environment = Environment(store, compute, chance.now, chance.rng, chance.new_id)
    sessions = SessionCache(environment, settings.cache_bytes)
    rounds = RoundService(sessions, settings.max_distribution_numbers)
    catalogue = Catalogue(
        environment,
        Limits(settings.max_state_bytes, settings.max_step_cost, settings.max_evidence_bytes),
        sessions.forget,
    )
    watched, most = settings.metrics_model_names, settings.metrics_max_models
    model_metrics = ModelMetrics(store, chance.now, watched, most, catalogue.check)
    draining = Draining(settings.drain_seconds)
    worker_metrics, request_log = WorkerMetrics(), RequestLog(settings.log_requests_per_second)
    routers = [
        predictions.router(rounds, compute, settings.max_batch_items),
        feedback.router(rounds, settings.max_batch_items),
        models.router(catalogue),
        log.router(catalogue, compute),
        learners.router(),
        webhooks.router(rounds, Verifier(settings.all_webhook_secrets(), chance.now), compute),
        health.router(store, lambda: draining.has_begun),
        metrics_api.router(model_metrics, worker_metrics),
    ]
    app = _bare_app(environment, sessions, [worker_metrics.flush, request_log.tick], draining)
    app.state.compute = compute
    _include(app, routers)
    app.include_router(docs.router())
    describe_access(app)
    _protect(app, settings, chance, redis)
    _observe(app, worker_metrics, request_log)
    app.add_middleware(SecurityHeaders)
    return app


def _protect(app: FastAPI, settings: Settings, chance: Chance, redis: RedisStore) -> None:
    """Adds the limits on bodies, keys and requests in flight."""
    pace = Pace(settings.body_timeout_seconds, settings.body_grace_seconds, settings.body_min_bytes_per_second)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, pace=pace)
    if settings.keys_required:
        keys = Gatekeeper(ApiKeyTable(redis.command), chance.now, settings.key_cache_seconds)
        wrong_keys = WrongKeys(chance.monotonic)
        app.add_middleware(Access, gatekeeper=keys, limiter=RateLimits(redis.command), wrong_keys=wrong_keys)
    app.add_middleware(InFlight, most=settings.max_requests_in_flight)


def _observe(app: FastAPI, metrics: WorkerMetrics, log: RequestLog) -> None:
    """Counts and tells every request, those that are turned away at the door too."""
    app.add_middleware(
        Observer,
        metrics=metrics,
        log=log,
        now=time.perf_counter,
        new_id=request_ids(os.urandom(10)),
        span_trace_id=telemetry.span_trace_id if telemetry.is_on() else None,
    )


def _bare_app(environment: Environment, sessions: SessionCache, watch: Sequence[Watch], draining: Draining) -> FastAPI:
    """An application without routes that keeps the sessions up, and answers errors as problems.

    Args:
        environment: its store and threads are closed at the end.
        sessions: kept up each second.
        watch: called each second, and once more at the end.
        draining: begins with the SIGTERM.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        spare_lasting_objects()
        # Kernels are loaded beside the first requests, not before them; one that is met sooner is loaded in a thread.
        threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
        upkeep = asyncio.create_task(_keep_up(sessions, watch))
        try:
            with draining.watching():
                yield
        finally:
            environment.compute.close()
            await end(upkeep)
            for tell in watch:
                tell()
            await environment.store.close()

    app = FastAPI(
        title="Wager",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "BSD-3-Clause"},
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would go to whatever host the request names
        telemetry=telemetry.configuration(telemetry.is_on()),
    )
    problems.install(app)
    return app


def _include(app: FastAPI, routers: list[APIRouter]) -> None:
    """Puts the routes at the root, and once more under /v1, undocumented there."""
    for routes in routers:
        app.include_router(routes)
    for routes in routers:
        app.include_router(routes, prefix="/v1", include_in_schema=False)


def _warm_up() -> None:
    warm_up()
    gc.freeze()  # what it has loaded lasts too


async def _keep_up(sessions: SessionCache, watch: Sequence[Watch]) -> None:
    """The worker's upkeep, until it is cancelled."""
    while True:
        await asyncio.sleep(_UPKEEP_SECONDS)
        for tell in watch:
            tell()
        await sessions.maintain()


async def end(task: asyncio.Task[None]) -> None:
    """Cancels a task until it ends: `asyncio.wait_for` of Python 3.11, which redis-py calls, may swallow one."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_PATIENCE)

"""The composition root of a worker: wires settings, store, use cases and HTTP interface."""

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import FastAPI

from learners.warming import load
from service.access.key_admin import access_control
from service.analytics.statistics import StatisticsReports
from service.api.application import UseCases, build_application
from service.api.middleware.body_limit import Pace
from service.api.middleware.pipeline import RequestLimits, RequestPolicy
from service.background.due_models import expiry, retention
from service.background.erasure import Erasure
from service.background.shadow_folds import shadow_folds
from service.compute import Compute
from service.environment import Environment, system_environment
from service.errors import WagerError
from service.lifecycle.copying import Copying
from service.lifecycle.promoting import Promoting
from service.lifecycle.replacing import Replacing
from service.lifecycle.snapshots import Snapshots
from service.lifecycle.use_cases import Lifecycle
from service.models.model import Limits
from service.observability.model_metrics import ModelMetrics
from service.observability.telemetry import Telemetry, telemetry
from service.processes import Draining, die_with_parent, spare_lasting_objects
from service.registry.catalogue import Catalogue
from service.registry.registry import ModelRegistry
from service.rounds.flags import Flags
from service.rounds.importer import RoundImporter
from service.rounds.sessions import SessionCache
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Receiver
from service.settings import Settings
from service.shadows.use_cases import Shadows
from service.store.capabilities import Store
from service.store.redis.open_store import OpenStore, open_store

_UPKEEP_SECONDS = 1.0  # between two runs of upkeep

_MOST_WARMED = 100  # maximum number of models whose kernels a worker loads when it starts
_LAST_SECONDS = 1.0  # maximum duration of the last upkeep before a worker ends
_PATIENCE = 0.1  # seconds between two cancellations of a task
MakeEnvironment = Callable[[Store, Compute], Environment]


def create_app(settings: Settings | None = None, make_environment: MakeEnvironment = system_environment) -> FastAPI:
    """Create the application of one worker.

    Without `settings`, the process is a dedicated worker: it reads its settings from the environment, and loads the
    kernels of the busiest models when it starts. Raises `ValueError` if the settings name no store.
    """
    die_with_parent()
    warms_up, settings = settings is None, settings or Settings()
    watch = telemetry(settings.log_requests_per_second, os.urandom(10))
    if settings.store_url is None:
        raise ValueError("WAGER_STORE_URL is not set; set it, or start the service with `wager serve`")
    store = settings.store_url, settings.store_timeout_seconds, settings.tls_files
    opened = open_store(*store, settings.wait_replicas, settings.max_open_bytes, tracing=watch.tracing)
    environment = make_environment(opened.store, Compute(settings.compute_threads))
    sessions, draining = SessionCache(environment, settings.cache_bytes), Draining(settings.drain_seconds)
    policy = _policy(settings, environment, opened, watch)
    return build_application(
        environment,
        _use_cases(settings, environment, sessions, draining),
        policy,
        lambda _: _running(environment, sessions, policy, draining, warms_up),
    )


def _use_cases(settings: Settings, environment: Environment, sessions: SessionCache, draining: Draining) -> UseCases:
    limits = Limits(settings.max_state_bytes, settings.max_step_cost, settings.max_evidence_bytes)
    registry = ModelRegistry(environment, limits, sessions.forget)
    catalogue = Catalogue(environment)
    names, most = settings.metrics_model_names, settings.metrics_max_models
    return UseCases(
        rounds=RoundService(sessions, settings.max_distribution_numbers),
        flags=Flags(sessions),
        imports=RoundImporter(sessions, environment),
        registry=registry,
        lifecycle=Lifecycle(
            snapshots=Snapshots(environment, sessions),
            replacing=Replacing(environment, limits, registry),
            copying=Copying(environment, limits, sessions),
            promoting=Promoting(environment, limits, registry),
        ),
        shadows=Shadows(environment, limits),
        catalogue=catalogue,
        reports=StatisticsReports(environment, catalogue, sessions.fold_soon),
        webhooks=Receiver(settings.all_webhook_secrets(), environment.now, settings.webhook_member_paths),
        model_metrics=ModelMetrics(environment.store, environment.now, names, most, catalogue.check),
        is_stopping=lambda: draining.has_begun,
    )


def _policy(settings: Settings, environment: Environment, opened: OpenStore, watch: Telemetry) -> RequestPolicy:
    pace = Pace(settings.body_timeout_seconds, settings.body_grace_seconds, settings.body_min_bytes_per_second)
    most = settings.max_body_bytes, settings.max_import_bytes
    limits = RequestLimits(settings.max_batch_items, *most, pace, settings.max_requests_in_flight)
    access = access_control(opened, environment, settings.key_cache_seconds, watch.metrics.count_compute)
    checked = access if settings.keys_required else None
    hosts = [settings.host, *settings.allowed_host_list]
    return RequestPolicy(watch, limits, checked, settings.cors_origin_list, hosts)


@contextlib.asynccontextmanager
async def _running(
    environment: Environment, sessions: SessionCache, policy: RequestPolicy, draining: Draining, warms_up: bool
) -> AsyncIterator[None]:
    """Run the background tasks while the worker serves. Then stop them, and close the worker's threads and store."""

    async def keep_up() -> None:
        policy.telemetry.tick()
        await sessions.maintain()

    spare_lasting_objects()
    due = expiry(environment, sessions), retention(environment, sessions), shadow_folds(environment)
    background = *due, Erasure(environment)
    tasks = [asyncio.create_task(_each_second(run)) for run in (keep_up, *(each.run for each in background))]
    if policy.access is not None:
        tasks.append(asyncio.create_task(_each_second(policy.access.meter.run)))
    if warms_up:
        tasks.append(asyncio.create_task(_warm_up(environment)))
    try:
        with draining.watching():
            yield
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await sessions.maintain(is_last=True)
        environment.compute.close()
        for task in tasks:
            await end(task)
        policy.telemetry.tick()
        await environment.store.close()


async def _warm_up(environment: Environment) -> None:
    """Load the kernels of the busiest models while requests are served.

    A request to another model loads that model's kernels. They are not loaded in advance, because the kernels of one
    learner take up to 60 MB of memory.
    """
    names = list[str]()
    with contextlib.suppress(WagerError):
        names = await environment.store.list_busiest(_MOST_WARMED)
    for name in names:
        with contextlib.suppress(WagerError):  # kernels that are not loaded here are loaded by a request
            stored = await environment.store.get_model(name)
            if stored is not None:
                model = await environment.models.read(stored)
                await environment.compute.run(name, load, type(model.learner))
    gc.freeze()  # kernels live as long as the process


async def _each_second(run: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(_UPKEEP_SECONDS)
        await run()


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: `asyncio.wait_for` in redis-py may swallow a cancellation in Python 3.11."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_PATIENCE)

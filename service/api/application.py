"""Builds the FastAPI application: routes and middleware on top of the use cases."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.types import Lifespan

from service import __version__
from service.access.access_control import AccessControl
from service.api.middleware.access import Access
from service.api.middleware.access_description import describe_access
from service.api.middleware.body_limit import BodyLimit, MostBytes, Pace
from service.api.middleware.cors import Cors
from service.api.middleware.in_flight import InFlight
from service.api.middleware.key_syntax import KeySyntax
from service.api.middleware.observer import Observer
from service.api.pages import dashboard, docs
from service.api.resources import (
    evaluation,
    explanations,
    feedback,
    health,
    learners,
    metrics,
    models,
    open_predictions,
    predictions,
    rounds,
    statistics,
    webhooks,
)
from service.api.resources.lifecycle import copies, shadows, snapshots
from service.api.responses import problems
from service.api.responses.headers import SecurityHeaders
from service.api.responses.shared_schemas import share_schemas
from service.api.tracing import tracing_configuration
from service.catalogue.catalogue import Catalogue
from service.catalogue.shadows import Shadows
from service.environment import Environment
from service.evaluation.latest import LatestRounds
from service.imports.importer import RoundImporter
from service.insight.insights import Insights
from service.lifecycle.use_cases import Lifecycle
from service.observability.model_metrics import ModelMetrics
from service.observability.telemetry import Telemetry
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Verifier

_DESCRIPTION = """Predicts one of K labels for a context, with a known probability, and learns from one bit:
right or wrong. Call `POST /models` once, then `POST /predict` and `POST /feedback`."""


class UseCases(NamedTuple):
    """The use cases that the routes call."""

    rounds: RoundService
    imports: RoundImporter
    catalogue: Catalogue
    lifecycle: Lifecycle
    shadows: Shadows
    insights: Insights
    verifier: Verifier
    model_metrics: ModelMetrics
    is_stopping: Callable[[], bool]


class RequestLimits(NamedTuple):
    """Limits on the size, the pace and the number of requests."""

    batch_items: int
    body_bytes: int
    import_bytes: int
    pace: Pace
    in_flight: int


class Guard(NamedTuple):
    """The checks that every request passes before it reaches a route."""

    telemetry: Telemetry
    limits: RequestLimits
    access: AccessControl | None  # None if no API keys are required
    origins: Sequence[str] = ()  # whose pages may call the API from a browser


def build_application(
    environment: Environment, use_cases: UseCases, guard: Guard, lifespan: Lifespan[FastAPI]
) -> FastAPI:
    """Build the application of one worker.

    Args:
        environment: threads, store and clocks.
        use_cases: what the routes call.
        guard: the checks that every request passes.
        lifespan: Starlette's lifespan context, active while the application runs.
    """
    app = _bare_application(lifespan, guard.telemetry.tracing)
    app.state.compute = environment.compute
    _include(app, _routers(environment, use_cases, guard))
    app.include_router(docs.router())
    app.include_router(dashboard.router())
    share_schemas(app)
    describe_access(app)
    _add_middleware(app, environment, guard)
    return app


def _bare_application(lifespan: Lifespan[FastAPI], tracing: bool) -> FastAPI:
    """Return an application that has no routes yet, and reports errors as problems."""
    app = FastAPI(
        title="Wager",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "BSD-3-Clause"},
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would trust the Host header
        telemetry=tracing_configuration(tracing),
    )
    problems.install(app)
    return app


def _routers(environment: Environment, use_cases: UseCases, guard: Guard) -> list[APIRouter]:
    """Return the versioned routes."""
    compute, most = environment.compute, guard.limits.batch_items
    return [
        predictions.router(use_cases.rounds, compute, most),
        feedback.router(use_cases.rounds, compute, most),
        models.router(use_cases.catalogue),
        snapshots.router(use_cases.lifecycle),
        statistics.router(use_cases.insights),
        rounds.router(use_cases.catalogue, use_cases.imports, compute),
        rounds.import_router(use_cases.imports, most),
        copies.router(use_cases.lifecycle.copying, compute),
        explanations.router(use_cases.rounds),
        evaluation.router(LatestRounds(environment.store, compute)),
        shadows.router(use_cases.shadows, use_cases.lifecycle.promoting),
        open_predictions.router(use_cases.catalogue),
        learners.router(),
        webhooks.router(use_cases.rounds, use_cases.verifier, compute),
        health.router(environment.store, use_cases.is_stopping),
        metrics.router(use_cases.model_metrics, guard.telemetry.metrics),
    ]


def _include(app: FastAPI, routers: list[APIRouter]) -> None:
    """Add the routes at the root, and again under /v1, where they are undocumented."""
    for routes in routers:
        app.include_router(routes)
    for routes in routers:
        app.include_router(routes, prefix="/v1", include_in_schema=False)


def _add_middleware(app: FastAPI, environment: Environment, guard: Guard) -> None:
    """Add the middleware, innermost first, so that `Observer` also counts and logs refused requests."""
    limits = guard.limits
    app.add_middleware(BodyLimit, most=MostBytes(limits.body_bytes, limits.import_bytes), pace=limits.pace)
    if guard.access is None:
        app.add_middleware(KeySyntax)
    else:
        app.add_middleware(Access, control=guard.access)
    app.add_middleware(InFlight, most=limits.in_flight)
    if guard.origins:
        app.add_middleware(Cors, origins=guard.origins)
    app.add_middleware(Observer, telemetry=guard.telemetry, now=environment.monotonic)
    app.add_middleware(SecurityHeaders)

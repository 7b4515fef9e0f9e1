"""Builds the FastAPI application: routes and middleware on top of the use cases."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from service import __version__
from service.api.middleware.access_description import describe_access
from service.api.middleware.gate import Gate, Guard
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
from service.api.responses.direct_route import DirectRoute
from service.api.responses.links import add_links
from service.api.responses.operation import Operation
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


class _Application(FastAPI):
    """FastAPI with a gate in front.

    Attributes:
        gate: wraps everything else.
        is_traced: whether FastAPI makes spans.
    """

    gate: Callable[[ASGIApp], ASGIApp]
    is_traced = False

    def build_middleware_stack(self) -> ASGIApp:
        """See `FastAPI`."""
        return self.gate(super().build_middleware_stack())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the gate. FastAPI and Starlette do the same in three times the time, but make spans."""
        if self.is_traced:
            return await super().__call__(scope, receive, send)
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        scope["app"] = self
        return await self.middleware_stack(scope, receive, send)


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
    routers = _routers(environment, use_cases, guard)
    _include(app, routers)
    app.include_router(docs.router())
    docs.describe(app, environment.compute)
    app.include_router(dashboard.router())
    share_schemas(app)
    add_links(app)
    describe_access(app)
    operations = {} if guard.telemetry.tracing else _operations(routers)  # FastAPI makes the spans of its routes
    app.gate = lambda rest: Gate(rest, operations, guard, environment.compute, environment.monotonic)
    return app


def _bare_application(lifespan: Lifespan[FastAPI], tracing: bool) -> _Application:
    """Return an application that has no routes yet, and reports errors as problems."""
    app = _Application(
        title="Wager",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "BSD-3-Clause"},
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would trust the Host header
        telemetry=tracing_configuration(tracing),
    )
    app.is_traced = tracing
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
        copies.router(use_cases.lifecycle.copying, guard.limits.import_bytes, environment.monotonic),
        explanations.router(use_cases.rounds),
        evaluation.router(LatestRounds(environment)),
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


def _operations(routers: Iterable[APIRouter]) -> dict[str, Operation]:
    """Return the operations that the gate may call, by path."""
    routes = [route for router in routers for route in router.routes if isinstance(route, DirectRoute)]
    found = {route.path: route.operation for route in routes if route.operation is not None}
    return found | {"/v1" + path: operation for path, operation in found.items()}

"""Builds the FastAPI application: routes and middleware on top of the use cases."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.middleware import Middleware
from fastapi.telemetry import TelemetryConfig
from starlette.types import Lifespan

from service import __version__
from service.analytics.evaluation import LatestRounds
from service.analytics.statistics import StatisticsReports
from service.api.middleware.pipeline import RequestPolicy, pipeline
from service.api.openapi import complete_openapi, serve_openapi
from service.api.responses import problems
from service.api.routes import (
    copies,
    feedback,
    health,
    key,
    models,
    ofrep,
    pages,
    predictions,
    rounds,
    states,
    statistics,
)
from service.environment import Environment
from service.lifecycle.use_cases import Lifecycle
from service.observability.model_metrics import ModelMetrics
from service.registry.catalogue import Catalogue
from service.registry.explained_decisions import ExplainedDecisions
from service.registry.registry import ModelRegistry
from service.rounds.flags import Flags
from service.rounds.importer import RoundImporter
from service.rounds.use_cases import RoundService
from service.rounds.webhooks import Receiver
from service.shadows.use_cases import Shadows

_UNTRACED = ("/livez", "/readyz", "/metrics")


def tracing_configuration(on: bool) -> TelemetryConfig:
    """Return FastAPI's tracing settings.

    If `on`, each request gets a span, a child of the one in its `traceparent` header. `_UNTRACED` lists the exceptions.
    """
    return {
        "tracing": on,
        "auto_configure": on,
        "metrics": False,
        "logs": False,  # exception messages may contain client data
        "operation_spans": False,
        "exclude": lambda scope: str(scope["path"]).endswith(_UNTRACED),
    }


_DESCRIPTION = """Chooses a label or an action for a context with a known probability, and learns from feedback: right
or wrong, a reward, or the true answer. Call `POST /models` once, then `POST /predict` and `POST /feedback`."""


class UseCases(NamedTuple):
    """The use cases and other objects that the routes call."""

    rounds: RoundService
    flags: Flags
    imports: RoundImporter
    registry: ModelRegistry
    lifecycle: Lifecycle
    shadows: Shadows
    catalogue: Catalogue
    reports: StatisticsReports
    webhooks: Receiver
    model_metrics: ModelMetrics
    is_stopping: Callable[[], bool]


def build_application(
    environment: Environment, use_cases: UseCases, policy: RequestPolicy, lifespan: Lifespan[FastAPI]
) -> FastAPI:
    """Build the application of one worker."""
    app = _bare_application(lifespan, policy.telemetry.tracing, pipeline(policy, environment.monotonic))
    app.state.compute = environment.compute
    for router in _routers(environment, use_cases, policy):
        app.router.routes.extend(router.routes)  # matching an included router takes 5 microseconds longer
    complete_openapi(app)
    serve_openapi(app, environment.compute)
    return app


def _bare_application(lifespan: Lifespan[FastAPI], tracing: bool, middleware: Sequence[Middleware]) -> FastAPI:
    app = FastAPI(
        title="Wager",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "BSD-3-Clause"},
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would trust the Host header
        middleware=middleware,
        telemetry=tracing_configuration(tracing),
    )
    problems.install(app)
    return app


def _routers(environment: Environment, use_cases: UseCases, policy: RequestPolicy) -> list[APIRouter]:
    compute, most = environment.compute, policy.limits.batch_items
    return [
        predictions.router(use_cases.rounds, compute, most),
        feedback.router(use_cases.rounds, compute, most),
        ofrep.router(use_cases.flags),
        ofrep.bulk_router(use_cases.flags),
        models.router(use_cases.registry, use_cases.catalogue),
        states.router(use_cases.lifecycle),
        statistics.router(use_cases.reports),
        rounds.router(use_cases.registry, use_cases.imports, compute),
        rounds.import_router(use_cases.imports, most),
        copies.router(use_cases.lifecycle.copying, policy.limits.import_bytes, environment.monotonic),
        predictions.explanation_router(use_cases.rounds),
        predictions.decisions_router(ExplainedDecisions(environment)),
        statistics.evaluation_router(LatestRounds(environment)),
        states.shadows_router(use_cases.shadows, use_cases.lifecycle.promoting),
        rounds.open_predictions_router(use_cases.registry),
        models.learners_router(compute),
        feedback.webhook_router(use_cases.rounds, use_cases.webhooks, compute),
        key.router(policy.access),
        health.router(environment.store, use_cases.is_stopping),
        health.metrics_router(use_cases.model_metrics, policy.telemetry.metrics),
        pages.router(),
    ]

"""`/livez` and `/readyz`: for whoever runs the service."""

from collections.abc import Callable, Sequence

from fastapi import APIRouter

from service.api.problems import responses
from service.errors import StoppingError
from service.schemas import Health, Readiness
from service.store.base import Store

_MOST_NAMES = 10
"""Of models, in a warning."""


def router(store: Store, stops: Callable[[], bool]) -> APIRouter:
    """The routes of health.

    Args:
        store: must answer.
        stops: tells whether this worker has been told to stop.
    """
    routes = APIRouter(tags=["operations"])

    @routes.get("/livez", summary="Check liveness")
    async def livez() -> Health:
        """Answers as long as the process runs, whatever the store does."""
        return Health(status="alive")

    @routes.get("/readyz", summary="Check readiness", responses=responses(StoppingError, body=False))
    async def readyz() -> Readiness:
        """Answers 200 when requests can be served, and says what the store promises; else 503 and why."""
        if stops():
            raise StoppingError("this worker was told to stop; it answers for a moment, but send it nothing new")
        facts, damaged = await store.check(), await store.list_damaged(_MOST_NAMES + 1)
        warnings = [*facts.warnings, *([_of_damage(damaged)] if damaged else [])]
        return Readiness(status="ready", store=facts.version, durability=facts.persistence, warnings=warnings)

    return routes


def _of_damage(names: Sequence[str]) -> str:
    more = " and more" if len(names) > _MOST_NAMES else ""
    return f"something stored cannot be read, see `wager repair`; of models {', '.join(names[:_MOST_NAMES])}{more}"

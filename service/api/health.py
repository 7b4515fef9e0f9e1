"""`/livez` and `/readyz`: for whoever runs the service."""

from fastapi import APIRouter

from service.api.problems import responses
from service.schemas import Health, Readiness
from service.store.base import Store


def router(store: Store) -> APIRouter:
    """The routes of health."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/livez", summary="Check liveness")
    async def livez() -> Health:
        """Answers as long as the process runs, whatever the store does."""
        return Health(status="alive")

    @routes.get("/readyz", summary="Check readiness", responses=responses(body=False))
    async def readyz() -> Readiness:
        """Answers 200 when requests can be served, and says what the store promises; else 503 and why."""
        facts = await store.check()
        return Readiness(status="ready", store=facts.version, durability=facts.persistence, warnings=facts.warnings)

    return routes

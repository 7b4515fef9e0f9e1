"""`/livez` and `/readyz`: for whoever runs the service."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import APIRouter

from service.api.responses.problems import responses
from service.errors import StoppingError
from service.schemas.health import Health, Readiness
from service.store.base import Store, StoreReadiness

_MOST_NAMES = 10
"""Of models, in a warning."""


def router(store: Store, stops: Callable[[], bool]) -> APIRouter:
    """The routes of health.

    Args:
        store: must answer.
        stops: tells whether this worker has been told to stop.
    """
    routes = APIRouter(tags=["operations"])
    check = _OneAtATime(store.check)

    @routes.get("/livez", summary="Check liveness")
    async def livez() -> Health:
        """Answers as long as the process runs, whatever the store does."""
        return Health(status="alive")

    @routes.get("/readyz", summary="Check readiness", responses=responses(StoppingError, body=False))
    async def readyz() -> Readiness:
        """Answers 200 when the store takes a write, and says what it promises; else 503 and why."""
        if stops():
            raise StoppingError("this worker was told to stop; it answers for a moment, but send it nothing new")
        readiness, damaged = await check(), await store.list_damaged(_MOST_NAMES + 1)
        warnings = [*readiness.warnings, *([_of_damage(damaged)] if damaged else [])]
        return Readiness(status="ready", store=readiness.version, durability=readiness.persistence, warnings=warnings)

    return routes


def _of_damage(names: Sequence[str]) -> str:
    more = " and more" if len(names) > _MOST_NAMES else ""
    return f"something stored cannot be read, see `wager repair`; of models {', '.join(names[:_MOST_NAMES])}{more}"


class _OneAtATime:
    """Share the check under way: readiness is asked for without a key, and costs a write."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, StoreReadiness]]) -> None:
        self._ask = ask
        self._asked: asyncio.Task[StoreReadiness] | None = None

    async def __call__(self) -> StoreReadiness:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._ask())
            self._asked.add_done_callback(
                lambda asked: asked.cancelled() or asked.exception()
            )  # when all callers have gone
        return await asyncio.shield(self._asked)

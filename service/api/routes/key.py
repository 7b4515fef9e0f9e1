"""`GET /key`: what the request's key may do, so that a page offers nothing else."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from service.access.key_admin import AccessControl
from service.access.keys import NO_BUDGETS, SCOPES, KeyBudgets, Scope
from service.api.middleware.access import current_caller
from service.api.responses.problems import responses
from service.api.responses.routes import StrictRoute
from service.registry.round_log import moment
from service.schemas.models import Answer


class KeyUsage(Answer):
    """What a key has used of its budgets. Null: it does not have this budget."""

    models: int | None = None
    open_bytes: int | None = None
    compute_seconds: Annotated[float | None, Field(examples=[1.5])] = None
    """By which the key is ahead of the even pace of its budget. At a twentieth of the budget it is refused."""


class KeyAnswer(Answer):
    """What the API key of a request may do."""

    id: Annotated[str | None, Field(examples=["0123456789ab"])]
    """The id of the key, which `wager keys list` shows; null if no keys are required."""
    scopes: list[Scope]
    """All scopes that the key may use: `admin` includes the others. Every scope if no keys are required."""
    models: Annotated[str, Field(examples=["shop-*"])]
    """The key allows the models whose names match this pattern, in which `*` matches any number of characters."""
    expires_at: Annotated[datetime | None, Field(examples=[None])]
    """When the key expires; null for never."""
    budgets: KeyBudgets
    """What the key may use."""
    used: KeyUsage
    """What it has used, for each budget that it has but that of requests."""


def router(access: AccessControl | None) -> APIRouter:
    """Return the route of the request's key; `access` is None if no keys are required."""
    routes = APIRouter(tags=["operations"], route_class=StrictRoute)

    @routes.get("/key", responses=responses())
    async def read_key() -> KeyAnswer:
        """Return what the API key of the request may do. Any valid key may ask, whatever its scopes."""
        caller = current_caller()
        if caller is None or access is None:
            return KeyAnswer(
                id=None, scopes=list(SCOPES), models="*", expires_at=None, budgets=NO_BUDGETS, used=KeyUsage()
            )
        ends = caller.record.expires_at
        return KeyAnswer(
            id=caller.key_id,
            scopes=[scope for scope in SCOPES if scope in caller.scopes],
            models=caller.names.glob,
            expires_at=None if ends is None else moment(ends),
            budgets=caller.budgets,
            used=KeyUsage(**await access.meter.used(caller)),
        )

    return routes

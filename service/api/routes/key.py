"""`GET /key`: what the request's key may do, so that a page offers nothing else."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from service.access.keys import SCOPES, Scope
from service.api.middleware.access import current_caller
from service.api.responses.problems import responses
from service.api.responses.routes import StrictRoute
from service.registry.round_log import moment
from service.schemas.models import Answer


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


def router() -> APIRouter:
    """Return the route of the request's key."""
    routes = APIRouter(tags=["operations"], route_class=StrictRoute)

    @routes.get("/key", responses=responses())
    async def read_key() -> KeyAnswer:
        """Return what the API key of the request may do. Any valid key may ask, whatever its scopes."""
        caller = current_caller()
        if caller is None:
            return KeyAnswer(id=None, scopes=list(SCOPES), models="*", expires_at=None)
        ends, scopes = caller.record.expires_at, [scope for scope in SCOPES if scope in caller.scopes]
        expires_at = None if ends is None else moment(ends)
        return KeyAnswer(id=caller.key_id, scopes=scopes, models=caller.names.glob, expires_at=expires_at)

    return routes

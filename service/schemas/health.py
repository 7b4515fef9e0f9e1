"""Schemas of the health checks."""

from typing import Literal

from service.schemas.models import Answer


class Health(Answer):
    """The state of the service."""

    status: Literal["ready", "alive"]


class Readiness(Health):
    """The state of the service and of its store."""

    store: str
    durability: str
    warnings: list[str]

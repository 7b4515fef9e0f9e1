"""Bodies about health."""

from typing import Literal

from service.schemas.models import Answer


class Health(Answer):
    """Whether the service can do its work."""

    status: Literal["ready", "alive"]


class Readiness(Health):
    """What the store is and promises."""

    store: str
    durability: str
    warnings: list[str]

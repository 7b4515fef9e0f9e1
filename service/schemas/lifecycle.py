"""Schemas of snapshots, and of requests that replace a model's state or copy the model."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from service.schemas.models import Answer, ModelName
from service.strict_body import Body
from service.wording.patterns import NAME

SnapshotId = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or digit."),
]


class SnapshotRequest(Body):
    """A snapshot to take now."""

    id: Annotated[SnapshotId, Field(default_factory=str, examples=["before-sale"])]
    """Its id; by default a new one. The same request again returns the first snapshot."""
    note: Annotated[str, StringConstraints(max_length=1000), Field(examples=["before the sale"])] = ""
    """A text of your own."""


class SnapshotAnswer(Answer):
    """A kept snapshot of a model."""

    id: str
    rounds: int
    """The rounds that it has seen."""
    changes: int
    """The changes that it has seen."""
    at: datetime
    by: Annotated[str | None, Field(examples=[None])]
    """The id of the API key that took it; null if no keys were required."""
    note: str
    bytes: int
    """The size of the state in the store."""


class SnapshotList(Answer):
    """All kept snapshots of a model, the oldest first."""

    snapshots: list[SnapshotAnswer]
    most: int
    """The maximum number of kept snapshots."""


class RollbackRequest(Body):
    """The state to return to."""

    snapshot: SnapshotId
    """The id of a kept snapshot."""


class ResetRequest(Body):
    """An empty object: a reset has no options."""


class CloneRequest(Body):
    """A copy of a model."""

    name: ModelName
    """The name of the new model."""

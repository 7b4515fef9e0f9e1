"""The states of models, as this worker's sessions have them."""

from typing import Protocol

from service import request_context
from service.errors import ModelNotFoundError
from service.models.model import Model
from service.replicas.replica import Replica
from service.store.base import Snapshot


class Session(Protocol):
    """A worker's session for one model."""

    @property
    def replica(self) -> Replica:
        """The worker's copy of the model."""


class Sessions(Protocol):
    """A worker's sessions."""

    async def find(self, name: str, field: str) -> Session:
        """Return the session of the model with this name; open one if needed."""

    def forget(self, name: str) -> None:
        """Drop the session of a deleted model."""


async def current(sessions: Sessions, name: str) -> tuple[Model, Snapshot]:
    """Return a model and its state after every round that was acknowledged before the call."""
    request_context.note_model(name)
    replica = (await sessions.find(name, "name")).replica
    try:
        return await replica.current()
    except ModelNotFoundError:  # deleted; a new one may have taken the name
        sessions.forget(name)
        return await (await sessions.find(name, "name")).replica.current()

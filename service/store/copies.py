"""Models that begin with the state of another model, in the place of an empty log."""

from typing import NamedTuple, Protocol

from service.store.import_store import ImportedSource
from service.store.kept_store import Snapshot
from service.store.stored_models import NO_POLICIES, ModelKey, StoredPolicies


class Counts(NamedTuple):
    """What a model has counted in its rounds."""

    correct: int = 0
    partial: float = 0.0  # sum of the rewards between 0 and 1
    expired: int = 0


class ModelCopy(NamedTuple):
    """A model to create with the state of another one."""

    definition: str  # JSON, before any change
    history: tuple[str, ...]  # every change as JSON, oldest first; the last one says where the model comes from
    summary: str
    snapshot: Snapshot  # after all of these changes
    counts: Counts
    policies: StoredPolicies = NO_POLICIES
    imports: tuple[ImportedSource, ...] = ()  # where the imports of the rounds in the state are


class CopyStore(Protocol):
    """Creates models with a state."""

    async def create_copy(self, key: ModelKey, copy: ModelCopy, now: float) -> bool:
        """Store a new model whose log begins after the rounds of a snapshot, with the last change of its history.

        Nothing is visible until all of it is stored.

        Returns:
            False if the name is taken. Creating the same incarnation again returns True.
        """

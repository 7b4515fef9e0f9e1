"""Models as stored."""

from typing import NamedTuple

from service.errors import StoreError


class ModelKey(NamedTuple):
    """Identifies one incarnation of a model. A model deleted and recreated under its name has another key."""

    name: str
    incarnation: str


class StoredPolicies(NamedTuple):
    """The policies of a model that the store follows without a worker."""

    closing: str = ""  # its rule for closing expired predictions (`service.models.closing`); "" if they are not closed
    retention: str = ""  # `retain_seconds`; "" for none
    resting: str = ""  # replaces an earlier `closing` if a change empties it: open predictions must still be closed


NO_POLICIES = StoredPolicies()


class StoredModel(NamedTuple):
    """A model with its definition and counters."""

    key: ModelKey
    definition: str  # JSON
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    damaged: int = 0  # number of unreadable rounds
    warnings: tuple[str, ...] = ()  # limits that the learner's state has reached
    partial: float = 0.0  # sum of the rewards between 0 and 1
    history: tuple[str, ...] = ()  # every change of the definition as JSON, oldest first


class ListedModel(NamedTuple):
    """The list entry of a model, which lacks the definition."""

    key: ModelKey
    summary: bytes | None  # of the definition, written at creation; None if it is lost
    definition_bytes: int
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    partial: float = 0.0  # sum of the rewards between 0 and 1
    changes: int = 0  # number of changes of the definition

    @property
    def name(self) -> str:
        """The model's name."""
        return self.key.name


class UnreadModel(NamedTuple):
    """The list entry of a model that cannot be read, and the reason."""

    name: str
    error: StoreError


class ModelPage(NamedTuple):
    """Models in name order, and the name to continue after; None if there are no more."""

    models: list[ListedModel | UnreadModel]
    next_cursor: str | None

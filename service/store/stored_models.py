"""Models as stored."""

from typing import NamedTuple

from service.errors import StoreError


class ModelKey(NamedTuple):
    """Identifies one incarnation of a model. A model deleted and recreated under its name has another key."""

    name: str
    incarnation: str


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


class ListedModel(NamedTuple):
    """The list entry of a model, which lacks the definition."""

    key: ModelKey
    summary: bytes | None  # of the definition, written at creation; None for models of 0.1.0
    definition_bytes: int
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int

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

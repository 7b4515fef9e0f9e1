"""Models as a store has them."""

from typing import NamedTuple

from service.errors import StoreError


class ModelKey(NamedTuple):
    """Names one life of a model: a model deleted and made again under its name is another."""

    name: str
    incarnation: str


class StoredModel(NamedTuple):
    """A model as the store has it."""

    key: ModelKey
    definition: str  # JSON
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    damaged: int = 0  # rounds that cannot be read


class ListedModel(NamedTuple):
    """A model as a list has it: without its definition."""

    key: ModelKey
    summary: bytes | None  # of the definition, written when the model was made; None for models of 0.1.0
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
    """A model that could not be read, alone among others, and why."""

    name: str
    error: StoreError


class ModelPage(NamedTuple):
    """Models in the order of their names, and the name to continue after, if there may be more."""

    models: list[ListedModel | UnreadModel]
    next_cursor: str | None

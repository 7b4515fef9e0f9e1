"""The part of the store's interface that activates predictions and closes expired ones. See `service.store.base`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from service.prediction_id import PredictionId
from service.store.feedback import FeedbackStatus
from service.store.stored_models import ModelKey


class Closed(NamedTuple):
    """The result of closing expired predictions of a model."""

    newest_round: int  # the number of the last round appended; 0 if there was none
    more: bool  # whether expired predictions remain


class ClosingStore(Protocol):
    """Activates predictions and closes expired ones. Each change is atomic."""

    async def activate(self, prediction: PredictionId, incarnation: str, now: float) -> FeedbackStatus:
        """Let a prediction take feedback.

        Returns:
            `recorded`, `duplicate` if it took feedback before, `expired`, `unknown`, `broken` or `newer-version`.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def watch_closing(self, models: Sequence[ModelKey]) -> None:
        """List models among those that close expired predictions. Listing them again changes nothing."""

    async def claim_due(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models whose predictions may have expired, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def close_expired(self, key: ModelKey, offset: float, most_blocks: int) -> Closed:
        """Close expired predictions of one model: by the feedback that waits, or by the model's rule.

        Each makes one round at most. The clock is that of the store, plus `offset` seconds.

        Args:
            key: the model. If it is gone, it is no longer listed.
            offset: seconds to add to the clock of the store.
            most_blocks: after this number of blocks, the call returns. The model is then still due.

        Raises:
            StoreCorruptError: if the model is damaged.
        """

    async def put_off_closing(self, key: ModelKey, offset: float, seconds: float) -> None:
        """Let a model be due after some seconds, for example because it cannot be read."""

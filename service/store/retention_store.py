"""The part of the store's interface that trims rounds by their age. See `service.store.base`."""

from collections.abc import Sequence
from typing import Protocol

from service.store.stored_models import ModelKey


class RetentionStore(Protocol):
    """Trims logs of models with `retain_seconds`. Each change is atomic."""

    async def watch_retention(self, models: Sequence[ModelKey]) -> None:
        """List models among those with `retain_seconds`. Listing them again changes nothing."""

    async def claim_old(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models that may have rounds to trim, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        """Trim rounds older than the model's `retain_seconds`, except the last ones of the snapshot and of the log.

        Returns:
            Whether rounds that are too old remain because the snapshot does not include them.
        """

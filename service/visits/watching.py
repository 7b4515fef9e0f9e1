"""Repeats the list of the models that a worker has loaded: a fail-over of the store may lose a part of it."""

import math
from collections.abc import Awaitable, Callable, Sequence

from service.store.stored_models import ModelKey

_SECONDS = 30.0
"""Seconds between two repetitions."""


class Watch:
    """Lists models in the store, at most every 30 seconds.

    Args:
        store: lists models.
        models: returns those that this worker has loaded.
        monotonic: returns seconds.
    """

    def __init__(
        self,
        store: Callable[[Sequence[ModelKey]], Awaitable[None]],
        models: Callable[[], Sequence[ModelKey]],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._models = models
        self._monotonic = monotonic
        self._done_at = -math.inf

    async def repeat(self) -> None:
        """List the models if it is time."""
        if self._monotonic() - self._done_at >= _SECONDS:
            await self._store(self._models())
            self._done_at = self._monotonic()

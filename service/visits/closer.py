"""Closes expired predictions of every model, whether or not this worker has loaded it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from service.environment import Environment
from service.errors import StoreError, StoreFullError, StoreUnavailableError
from service.store.stored_models import ModelKey
from service.visits.watching import Watch

_log = logging.getLogger(__name__)

_MODELS_AT_ONCE = 8
"""Models closed concurrently; most of a worker's commands in flight stay free for requests."""

_BLOCKS_AT_ONCE = 64
"""Maximum blocks of one model per call, which the store closes in a few milliseconds. Then other models get a turn."""

_LEASE_SECONDS = 2.0
"""Seconds for which a claimed model is left to one worker. If the worker dies, another one closes its predictions."""

_RETRY_SECONDS = 60.0
"""Seconds after which to try again to close the predictions of a model that cannot be read."""


class ModelsInUse(Protocol):
    """The models that this worker has loaded."""

    def closing(self) -> Sequence[ModelKey]:
        """Return those that close expired predictions."""

    def note_rounds(self, key: ModelKey, newest: int) -> None:
        """Note the number of the newest round in the log of a model, loaded or not."""


class Closer:
    """Closes expired predictions. All workers do so; the store reserves each model for one of them.

    Args:
        environment: provides the store, and the offset of its clock.
        models: the models that this worker has loaded.
    """

    def __init__(self, environment: Environment, models: ModelsInUse) -> None:
        self._store = environment.store
        self._offset = environment.store_offset
        self._models = models
        self._watch = Watch(self._store.watch_closing, models.closing, environment.monotonic)

    async def run(self) -> None:
        """Close what has expired; log errors."""
        try:
            await self._watch.repeat()
            while due := await self._store.claim_due(self._offset(), _MODELS_AT_ONCE, _LEASE_SECONDS):
                await asyncio.gather(*map(self._close, due))
        except StoreError as error:  # the next run repeats it
            _log.warning("closing expired predictions: %s", error.detail)

    async def _close(self, key: ModelKey) -> None:
        try:
            closed = await self._store.close_expired(key, self._offset(), _BLOCKS_AT_ONCE)
        except (StoreUnavailableError, StoreFullError):
            raise
        except StoreError as error:  # this model must not stop the others
            _log.warning("closing expired predictions of model %s: %s", key.name, error.detail)
            await self._store.put_off_closing(key, self._offset(), _RETRY_SECONDS)
        else:
            self._models.note_rounds(key, closed.newest_round)

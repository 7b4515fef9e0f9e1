"""Visits models that are due, whether or not this worker has loaded them: expired predictions, and rounds to trim."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from service.environment import Environment
from service.errors import ModelNotFoundError, StoreError, StoreFullError, StoreUnavailableError
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


_log = logging.getLogger(__name__)

_MODELS_AT_ONCE = 8
"""Models closed concurrently; most of a worker's commands in flight stay free for requests."""

_BLOCKS_AT_ONCE = 64
"""Maximum blocks of one model per call, which the store closes in a few milliseconds. Then other models get a turn."""

_CLOSE_LEASE_SECONDS = 2.0
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
            while due := await self._store.claim_due(self._offset(), _MODELS_AT_ONCE, _CLOSE_LEASE_SECONDS):
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


_TRIM_LEASE_SECONDS = 10.0
"""Seconds for which a claimed model is left to one worker."""


class RetainedModels(Protocol):
    """The models of a worker."""

    def retained(self) -> Sequence[ModelKey]:
        """Return the loaded models that have `retain_seconds`."""

    def write_snapshot(self, name: str) -> Awaitable[None]:
        """Load a model, fold its log, and write a snapshot."""


class Retention:
    """Trims logs by age. All workers do so; the store reserves each model for one of them.

    Args:
        environment: provides the store, and the offset of its clock.
        models: the models of this worker.
    """

    def __init__(self, environment: Environment, models: RetainedModels) -> None:
        self._store = environment.store
        self._offset = environment.store_offset
        self._models = models
        self._watch = Watch(self._store.watch_retention, models.retained, environment.monotonic)

    async def run(self) -> None:
        """Trim what is too old; log errors."""
        try:
            await self._watch.repeat()
            for key in await self._store.claim_old(self._offset(), _MODELS_AT_ONCE, _TRIM_LEASE_SECONDS):
                await self._trim(key)
        except StoreError as error:  # the next run repeats it
            _log.warning("trimming old rounds: %s", error.detail)

    async def _trim(self, key: ModelKey) -> None:
        try:
            if await self._store.forget_old(key, self._offset()):
                await self._models.write_snapshot(key.name)
                await self._store.forget_old(key, self._offset())
        except (StoreUnavailableError, StoreFullError):
            raise
        except ModelNotFoundError:  # deleted since; the next claim removes it from the list
            pass
        except StoreError as error:  # this model must not stop the others
            _log.warning("trimming old rounds of model %s: %s", key.name, error.detail)

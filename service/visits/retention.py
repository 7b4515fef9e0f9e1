"""Trims rounds that are older than their model's `retain_seconds`, whether or not this worker has loaded the model."""

import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol

from service.environment import Environment
from service.errors import ModelNotFoundError, StoreError, StoreFullError, StoreUnavailableError
from service.store.stored_models import ModelKey
from service.visits.watching import Watch

_log = logging.getLogger(__name__)

_MODELS_AT_ONCE = 8
_LEASE_SECONDS = 10.0
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
            for key in await self._store.claim_old(self._offset(), _MODELS_AT_ONCE, _LEASE_SECONDS):
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

"""Visits models with expired predictions or old rounds, whether or not this worker has loaded them."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from service.environment import Environment
from service.errors import ModelNotFoundError, StoreError, StoreFullError, StoreUnavailableError, WagerError
from service.rounds.sessions import SessionCache
from service.store.stored_models import ModelKey
from service.store.values import Due

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 30.0
"""Seconds between two additions of a worker's loaded models to a list: a fail-over of the store may lose some."""

_RETRY_SECONDS = 60.0
"""Seconds until the next visit to a model after a failed one."""

_BLOCKS_AT_ONCE = 64
"""Maximum blocks closed per visit, in a few milliseconds. Then other models get a turn."""


class DueModels:
    """Visits the due models of one list. All workers do; the store reserves each model for one of them at a time.

    Args:
        environment: provides the store, the offset to add to its clock, and a monotonic clock.
        due: the list.
        work: a description of the work, for the log.
        visit: does the work for one model, and schedules the next visit.
        loaded: returns the loaded models of this worker that belong on the list.
        at_once: models visited concurrently; few, because requests need the connections to the store too.
        lease: seconds for which a model is reserved. If the worker dies, another one visits the model afterwards.
    """

    def __init__(
        self,
        environment: Environment,
        due: Due,
        work: str,
        visit: Callable[[ModelKey], Awaitable[None]],
        loaded: Callable[[], Sequence[ModelKey]] = list,
        *,
        at_once: int,
        lease: float,
    ) -> None:
        self._store = environment.store
        self._offset = environment.store_offset
        self._monotonic = environment.monotonic
        self._due, self._work, self._visit, self._loaded = due, work, visit, loaded
        self._at_once, self._lease = at_once, lease
        self._watched_at = -math.inf

    async def run(self) -> None:
        """Visit every model that is due. Errors of the store or of a model are only logged."""
        try:
            if self._monotonic() - self._watched_at >= _WATCH_SECONDS:
                await self._store.watch(self._due, self._loaded())
                self._watched_at = self._monotonic()
            while keys := await self._store.claim(self._due, self._offset(), self._at_once, self._lease):
                await asyncio.gather(*map(self._visit_one, keys))
        except StoreError as error:  # the next run tries again
            _log.warning("%s: %s", self._work, error.detail)

    async def _visit_one(self, key: ModelKey) -> None:
        try:
            await self._visit(key)
        except (StoreUnavailableError, StoreFullError):
            raise
        except ModelNotFoundError:  # deleted; the next visit removes it from the list
            pass
        except WagerError as error:  # this model must not stop the others
            _log.warning("%s of model %s: %s", self._work, key.name, error.detail)
            await self._store.put_off(self._due, key, self._offset(), _RETRY_SECONDS)


def expiry(environment: Environment, sessions: SessionCache) -> DueModels:
    """Return the visits that close expired predictions."""
    store, offset = environment.store, environment.store_offset

    async def close(key: ModelKey) -> None:
        closed = await store.close_expired(key, offset(), _BLOCKS_AT_ONCE)
        sessions.note_rounds(key, closed.newest_round)

    work = "closing expired predictions"
    return DueModels(environment, Due.CLOSING, work, close, sessions.closing, at_once=8, lease=2.0)


def retention(environment: Environment, sessions: SessionCache) -> DueModels:
    """Return the visits that trim rounds older than their model's `retain_seconds`."""
    store, offset = environment.store, environment.store_offset

    async def trim(key: ModelKey) -> None:
        if await store.forget_old(key, offset()):  # some must stay until a newer snapshot is stored
            await sessions.write_snapshot(key.name)
            await store.forget_old(key, offset())

    work = "trimming old rounds"
    return DueModels(environment, Due.RETENTION, work, trim, sessions.retained, at_once=8, lease=10.0)

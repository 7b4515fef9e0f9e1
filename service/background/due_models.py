"""Visits models with expired predictions or rounds to trim, whether or not this worker has loaded them."""

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
"""Interval at which each worker lists its loaded models again: a fail-over of the store may lose a part of a list."""

_RETRY_SECONDS = 60.0
"""Seconds until the next visit of a model that cannot be read."""

_BLOCKS_AT_ONCE = 64
"""Maximum blocks of one model per call, to close them in a few milliseconds. Then other models get a turn."""


class DueModels:
    """Visits the due models of one list. Every worker has one; the store reserves each model for one worker at a time.

    Args:
        environment: provides the store, the offset of its clock, and a clock.
        due: the list.
        work: a description of the work, for messages.
        visit: does the work for one model, and postpones the next visit.
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
        """Visit every model that is due; log errors."""
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
        except ModelNotFoundError:  # deleted since; the next visit removes it from the list
            pass
        except WagerError as error:  # this model must not stop the others
            _log.warning("%s of model %s: %s", self._work, key.name, error.detail)
            await self._store.put_off(self._due, key, self._offset(), _RETRY_SECONDS)


def expiry(environment: Environment, sessions: SessionCache) -> DueModels:
    """Close expired predictions."""
    store, offset = environment.store, environment.store_offset

    async def close(key: ModelKey) -> None:
        closed = await store.close_expired(key, offset(), _BLOCKS_AT_ONCE)
        sessions.note_rounds(key, closed.newest_round)

    work = "closing expired predictions"
    return DueModels(environment, Due.CLOSING, work, close, sessions.closing, at_once=8, lease=2.0)


def retention(environment: Environment, sessions: SessionCache) -> DueModels:
    """Trim rounds that are older than their model's `retain_seconds`."""
    store, offset = environment.store, environment.store_offset

    async def trim(key: ModelKey) -> None:
        if await store.forget_old(key, offset()):  # the snapshot lacks some of them
            await sessions.write_snapshot(key.name)
            await store.forget_old(key, offset())

    work = "trimming old rounds"
    return DueModels(environment, Due.RETENTION, work, trim, sessions.retained, at_once=8, lease=10.0)

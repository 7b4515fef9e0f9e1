"""Visits the models that need background work, whether or not this worker has loaded them."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from service.environment import Environment
from service.errors import (
    ModelNotFoundError,
    NewerVersionError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    WagerError,
)
from service.rounds.sessions import SessionCache
from service.store.stored_models import ModelKey
from service.store.values import Due

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 30.0
"""Seconds after which a worker adds its loaded models to a list again: a fail-over of the store may have lost some."""

_RETRY_SECONDS = 60.0
"""Seconds until the next visit to a model after a failed one."""

_NEWER_SECONDS = 1.5
"""The same if the visit met records of a newer version: every other worker looks for due models within this time."""

_REST_SECONDS = 20.0
"""Seconds for which a worker then leaves the whole list to others: newer ones can read all models."""

_LONGEST_RUN = 1.0
"""Seconds after which such a worker rests, for as long: what it put off comes again before it has visited the rest."""

_BLOCKS_AT_ONCE = 64
"""Maximum blocks closed per visit, which takes a few milliseconds. Then other models get a turn."""


class DueModels:
    """Visits the due models of one list. Every worker does so; the store reserves each model for one worker at a time.

    Args:
        environment: provides the store, the offset to add to its clock, and a monotonic clock.
        due: the list.
        work: a description of the work, for the log.
        visit: does the work for one model, schedules the next visit, and returns whether it met records of a newer
            version. `NewerVersionError` says the same, but leaves the schedule to this class.
        loaded: returns the loaded models of this worker that belong on the list.
        at_once: how many models are visited concurrently: few, because requests need the connections to the store too.
        lease: seconds for which a model is reserved. If the worker dies, another worker visits the model after that.
    """

    def __init__(
        self,
        environment: Environment,
        due: Due,
        work: str,
        visit: Callable[[ModelKey], Awaitable[bool]],
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
        self._watched_at = self._rests_until = -math.inf
        self._has_met_newer = False

    async def run(self) -> None:
        """Visit every model that is due. Errors of the store or of a model are only logged."""
        begin = self._monotonic()
        if begin < self._rests_until:
            return
        self._has_met_newer = False
        try:
            if self._monotonic() - self._watched_at >= _WATCH_SECONDS:
                await self._store.watch(self._due, self._loaded())
                self._watched_at = self._monotonic()
            while keys := await self._store.claim(self._due, self._offset(), self._at_once, self._lease):
                await asyncio.gather(*map(self._visit_one, keys))
                if self._has_met_newer and self._monotonic() - begin > _LONGEST_RUN:
                    break
            if self._has_met_newer:
                self._rests_until = self._monotonic() + (_LONGEST_RUN if keys else _REST_SECONDS)
        except StoreError as error:  # the next run tries again
            _log.warning("%s: %s", self._work, error.detail)

    async def _visit_one(self, key: ModelKey) -> None:
        try:
            if await self._visit(key):
                self._has_met_newer = True
        except (StoreUnavailableError, StoreFullError):
            raise
        except ModelNotFoundError:  # deleted; the next visit removes it from the list
            pass
        except WagerError as error:  # this model must not stop the others
            _log.warning("%s of model %s: %s", self._work, key.name, error.detail)
            pause = _RETRY_SECONDS
            if isinstance(error, NewerVersionError):
                pause, self._has_met_newer = _NEWER_SECONDS, True
            await self._store.put_off(self._due, key, self._offset(), pause)


def expiry(environment: Environment, sessions: SessionCache) -> DueModels:
    """Return the object that visits models to close their expired predictions."""
    store, offset = environment.store, environment.store_offset

    async def close(key: ModelKey) -> bool:
        closed = await store.close_expired(key, offset(), _BLOCKS_AT_ONCE)
        sessions.note_rounds(key, closed.newest_round)
        return closed.is_newer

    work = "closing expired predictions"
    return DueModels(environment, Due.CLOSING, work, close, sessions.closing, at_once=8, lease=1.5)


def retention(environment: Environment, sessions: SessionCache) -> DueModels:
    """Return the object that visits models to trim their rounds older than `retain_seconds`."""
    store, offset = environment.store, environment.store_offset

    async def trim(key: ModelKey) -> bool:
        if await store.forget_old(key, offset()):  # some old rounds must stay until a newer snapshot is stored
            await sessions.write_snapshot(key.name)
            await store.forget_old(key, offset())
        return False

    work = "trimming old rounds"
    return DueModels(environment, Due.RETENTION, work, trim, sessions.retained, at_once=8, lease=10.0)

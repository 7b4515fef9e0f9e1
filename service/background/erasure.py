"""Erases the predictions that deleted models have left."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from service.environment import Environment
from service.errors import StoreError
from service.store.values import Due

_log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""Maximum models whose keys are searched for together: a search reads the names of all keys of the store."""

_LEASE = 600.0
"""Seconds for which a worker reserves the models. If it dies, another worker begins again after that."""

_REST = 9.0
"""Seconds of rest for each second of searching, so that the store spends at most a tenth of its time on it."""


class Erasure:
    """Erases what deleted models have left, as one worker of several.

    Args:
        environment: provides the store, the offset to add to its clock, and a monotonic clock.
        sleep: waits for a number of seconds.
    """

    def __init__(self, environment: Environment, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._store, self._offset, self._monotonic = environment.store, environment.store_offset, environment.monotonic
        self._sleep = sleep

    async def run(self) -> None:
        """Search the store once for the keys of all models that are listed now. Errors of the store are only logged."""
        try:
            deleted = await self._store.claim_deleted(self._offset(), _AT_ONCE, _LEASE)
            cursor: str | None = "" if deleted else None
            claimed_at = self._monotonic()
            while cursor is not None:
                begin = self._monotonic()
                if begin - claimed_at > _LEASE / 2:
                    for key in deleted:
                        await self._store.put_off(Due.ERASURE, key, self._offset(), _LEASE)
                    claimed_at = begin
                cursor = await self._store.erase(deleted, cursor)
                await self._sleep(_REST * (self._monotonic() - begin))
        except StoreError as error:  # a search after the lease tries again
            _log.warning("erasing the predictions of deleted models: %s", error.detail)

"""The commands of the store over the Redis protocol that trim rounds by their age."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from service.store import keys
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import Script, record_script, script
from service.store.stored_models import ModelKey

_FORGET_OLD = record_script("read_entries", "snapshot_there", "forget_old")
_CLAIM_DUE = script("claim_due")

_ENTRIES_AT_ONCE = 2048
"""Maximum log entries to trim per call, in about a millisecond."""


class RetentionCommands(ABC):
    """The methods of `service.store.redis.redis_store.RedisStore` that trim rounds by their age."""

    @abstractmethod
    async def _call(self, *command: Any) -> Any:
        """Send one command."""

    @abstractmethod
    async def _run(self, script: Script, named: Sequence[str], args: Sequence[Any]) -> Any:
        """Run a script on some keys."""

    @translating_errors
    async def watch_retention(self, models: Sequence[ModelKey]) -> None:
        """See `Store.watch_retention`."""
        if models:
            await self._call("ZADD", keys.RETENTION, "NX", *(part for key in models for part in (0, keys.member(key))))

    @translating_errors
    async def claim_old(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """See `Store.claim_old`."""
        members = await self._run(_CLAIM_DUE, [keys.RETENTION], [repr(offset), limit, repr(seconds)])
        return [keys.of_member(member) for member in members]

    @translating_errors
    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        """See `Store.forget_old`."""
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key)]
        reply = await self._run(_FORGET_OLD, named, [key.incarnation, repr(offset), _ENTRIES_AT_ONCE])
        if reply is None:
            await self._call("ZREM", keys.RETENTION, keys.member(key))
            return False
        upcoming, waits = reply
        await self._call("ZADD", keys.RETENTION, "XX", upcoming, keys.member(key))
        return bool(waits)

"""The tables of access control: API key records, and counts of what keys use."""

import math
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple, Protocol

from limits import RateLimitItem, parse

from service.store import keys


class KeyTable(Protocol):
    """The records of API keys. `service.access.keys` defines their content. Every method may raise `StoreError`."""

    async def get(self, key_id: str) -> bytes | None:
        """Return the record of a key, or None."""

    async def all(self) -> dict[str, bytes]:
        """Return all records by the ids of their keys."""

    async def add(self, key_id: str, record: bytes) -> bool:
        """Store a new record; return False if the id is taken."""

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Replace the record of an id; return False if there is none."""

    async def remove(self, key_id: str) -> bool:
        """Remove a record; return False if there is none."""


class RequestCount(NamedTuple):
    """The number of requests of a key in the current window of its rate limit, compared with this limit."""

    most: int  # requests allowed per window
    window: int  # seconds
    left: int  # requests left after this one; -1 if this one exceeds the limit
    resets_in: int | None  # seconds until the window ends, at least 1; None if requests are left


class UsageCounter(Protocol):
    """Counts what API keys with budgets use. Every method may raise `StoreError`."""

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Count a request of a key against a limit such as `100/second`."""

    async def spend(self, key_id: str, seconds: float, budget: float) -> float:
        """Add processor time that a key has used; return the seconds until it is within the pace of its budget.

        Args:
            key_id: of the key.
            seconds: used since the last call; 0 only reads.
            budget: seconds a minute.
        """

    async def open_bytes(self, key_id: str) -> int | None:
        """Return the bytes that `note_open_bytes` noted within the last second, or None."""

    async def note_open_bytes(self, key_id: str, sum_: int) -> None:
        """Note, for all workers, the bytes of the open predictions of the key's models."""


_Call = Callable[..., Awaitable[Any]]

_REPLACE = resources.files("service.store").joinpath("lua", "replace_api_key.lua").read_bytes()


class ApiKeyTable:
    """Implements `service.store.access_tables.KeyTable`.

    Args:
        call: sends one command to the store, like `RedisStore.command`; raises `StoreError`.
    """

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def get(self, key_id: str) -> bytes | None:
        """Return the record of a key, or None."""
        record: bytes | None = await self._call("HGET", keys.API_KEYS, key_id)
        return record

    async def all(self) -> dict[str, bytes]:
        """Return all records by the ids of their keys."""
        found = await self._call("HGETALL", keys.API_KEYS)
        return {key_id.decode(errors="replace"): record for key_id, record in found.items()}

    async def add(self, key_id: str, record: bytes) -> bool:
        """Store a new record; return False if the id is taken."""
        return bool(await self._call("HSETNX", keys.API_KEYS, key_id, record))

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Replace the record of an id; return False if there is none, for example because the key was revoked."""
        return bool(await self._call("EVAL", _REPLACE, 1, keys.API_KEYS, key_id, record))

    async def remove(self, key_id: str) -> bool:
        """Remove a record; return False if there is none."""
        return bool(await self._call("HDEL", keys.API_KEYS, key_id))


_LUA = resources.files("service.store") / "lua"
_COUNT, _SPEND = (_LUA / "count_requests.lua").read_text(), (_LUA / "spend_compute.lua").read_text()

MINUTE = 60  # seconds, of a budget of processor time
MOST_AHEAD = 86_400  # seconds for which a key may be ahead of its pace


class UsageCounters:
    """Implements `service.store.access_tables.UsageCounter`.

    Args:
        command: sends one command to the store; raises `StoreError`.
    """

    def __init__(self, command: _Call) -> None:
        self._command = command

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Count a request of a key against a limit such as `100/second`.

        Raises:
            StoreUnavailableError: if the store does not answer.
            StoreFullError: if the store cannot write to its disk.
        """
        item = _parse(limit)
        counter, window = f"{keys.RATE_LIMITS}:{item.key_for(key_id)}", item.get_expiry()
        made, left_of_it = await self._command("EVAL", _COUNT, 1, counter, window)
        if made < item.amount:
            return RequestCount(item.amount, window, item.amount - made, None)
        return RequestCount(item.amount, window, max(item.amount - made, -1), max(1, math.ceil(left_of_it / 1000)))

    async def spend(self, key_id: str, seconds: float, budget: float) -> float:
        """Add processor time that a key has used; return the seconds until it is within the pace of its budget.

        Args:
            key_id: of the key.
            seconds: used since the last call; 0 only reads.
            budget: seconds a minute.
        """
        milliseconds = round(min(seconds / budget * MINUTE, MOST_AHEAD) * 1000)
        bucket, most = f"{keys.RATE_LIMITS}:compute:{key_id}", MOST_AHEAD * 1000
        if not milliseconds:  # also while the store takes no writes
            return max(int(await self._command("PTTL", bucket)), 0) / 1000
        ahead: int = await self._command("EVAL", _SPEND, 1, bucket, milliseconds, most)
        return ahead / 1000

    async def open_bytes(self, key_id: str) -> int | None:
        """Return the bytes that `note_open_bytes` noted within the last second, or None."""
        noted = await self._command("GET", f"{keys.RATE_LIMITS}:open:{key_id}")
        return None if noted is None else int(noted)

    async def note_open_bytes(self, key_id: str, sum_: int) -> None:
        """Note, for all workers, the bytes of the open predictions of the key's models."""
        await self._command("SET", f"{keys.RATE_LIMITS}:open:{key_id}", sum_, "PX", 1000)


@lru_cache(maxsize=1024)
def _parse(limit: str) -> RateLimitItem:
    return parse(limit)

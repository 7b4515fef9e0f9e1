"""The tables of access control: API key records, and counts of requests."""

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


class RequestCounter(Protocol):
    """Counts the requests of API keys with a rate limit."""

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Count a request of a key against a limit such as `100/second`; raise `StoreError` if the store fails."""


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


_COUNT = (resources.files("service.store") / "lua" / "count_request.lua").read_text()


class RateLimits:
    """Implements `service.store.access_tables.RequestCounter`.

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


@lru_cache(maxsize=1024)
def _parse(limit: str) -> RateLimitItem:
    return parse(limit)

"""The records of API keys, in one hash of the store. `service.access.keys` defines their content."""

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from service.store import keys

_Call = Callable[..., Awaitable[Any]]

_REPLACE = resources.files("service.store").joinpath("lua", "replace_api_key.lua").read_bytes()


class ApiKeyTable:
    """Implements `service.store.access.tables.KeyTable`.

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
        """Return every record by key id."""
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

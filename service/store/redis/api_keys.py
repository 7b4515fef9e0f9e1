"""The records of API keys, in one hash of the store. What is in a record is said in `service.access.keys`."""

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from service.store import keys

_Call = Callable[..., Awaitable[Any]]

_REPLACE = resources.files("service.store").joinpath("lua", "replace_api_key.lua").read_bytes()


class ApiKeyTable:
    """Implements `service.store.access_tables.KeyTable`.

    Args:
        call: sends one command to the store, such as `RedisStore.command`; raises `StoreError`.
    """

    def __init__(self, call: _Call) -> None:
        self._call = call

    async def get(self, key_id: str) -> bytes | None:
        """The record of a key."""
        record: bytes | None = await self._call("HGET", keys.API_KEYS, key_id)
        return record

    async def all(self) -> dict[str, bytes]:
        """Every key's record by its id."""
        found = await self._call("HGETALL", keys.API_KEYS)
        return {key_id.decode(errors="replace"): record for key_id, record in found.items()}

    async def add(self, key_id: str, record: bytes) -> bool:
        """Stores a new record; False if the id is taken."""
        return bool(await self._call("HSETNX", keys.API_KEYS, key_id, record))

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Stores another record for an id; False if there is none, as when the key was revoked meanwhile."""
        return bool(await self._call("EVAL", _REPLACE, 1, keys.API_KEYS, key_id, record))

    async def remove(self, key_id: str) -> bool:
        """Removes a record; False if there is none."""
        return bool(await self._call("HDEL", keys.API_KEYS, key_id))

"""The damage commands of the store over the Redis protocol: record damage, and scan for it."""

from collections.abc import Sequence
from typing import Any

from redis import exceptions

from service.errors import ModelNotFoundError
from service.store import keys
from service.store.base import Block, BlockPage
from service.store.damage import Damage, DamageRecord, decode_damage
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import Script, script
from service.store.stored_models import ModelKey

_RECORD_DAMAGE = script("snapshot_there", "record_damage")
_MARK_SNAPSHOT = script("snapshot_there", "mark_snapshot")

_SNAPSHOT_IS_AHEAD = -1
_SCAN_COUNT = 1000


class DamageCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that concern damage."""

    @translating_errors
    async def record_damage(self, key: ModelKey, found: Sequence[Damage]) -> bool:
        """See `Store.record_damage`."""
        ranges = [part for each in found for part in (each.first, each.last, each.entry, each.reason)]
        return await self._record(_RECORD_DAMAGE, key, ranges) != _SNAPSHOT_IS_AHEAD

    @translating_errors
    async def mark_snapshot(self, key: ModelKey, rounds: int, reason: str) -> None:
        """See `Store.mark_snapshot`."""
        await self._record(_MARK_SNAPSHOT, key, [rounds, reason])

    async def _record(self, script: Script, key: ModelKey, args: Sequence[Any]) -> int:
        named = [keys.model(key.name), keys.snapshot(*key), keys.damage(*key)]
        reply = await self._run(script, named, [key.incarnation, *args])
        if reply is not None:
            await self._enlist(keys.DAMAGED, 0, key.name)
        if await self._call("HGET", keys.model(key.name), "incarnation") != key.incarnation.encode():
            await self._call("ZREM", keys.DAMAGED, key.name)
            raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
        return int(reply)

    @translating_errors
    async def read_damage(self, key: ModelKey) -> DamageRecord:
        """See `Store.read_damage`."""
        # Read the version first: damage recorded between the two reads then causes another read.
        version = await self._call("HGET", keys.model(key.name), "damage")
        return DamageRecord(int(version or 0), decode_damage(await self._call("HGETALL", keys.damage(*key))))

    @translating_errors
    async def list_damaged(self, limit: int) -> list[str]:
        """See `Store.list_damaged`."""
        names = await self._call("ZRANGE", keys.DAMAGED, "-", "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in names]

    @translating_errors
    async def read_block(self, key: ModelKey, id_: str) -> bytes | None:
        """See `Store.read_block`."""
        return await self._get(keys.block(*key, id_).encode())

    @translating_errors
    async def scan_blocks(self, key: ModelKey, cursor: str) -> BlockPage:
        """See `Store.scan_blocks`. A cursor is the number of a server, a dot, and the cursor of that server."""
        prefix, servers = keys.block(*key, ""), list(await self._connection.primaries())
        number, _, place = (cursor or "0.0").partition(".")
        if int(number) >= len(servers):  # there are fewer servers than before
            return BlockPage([], None)
        following, found = await self._scan(servers[int(number)].call, int(place), f"{prefix}*")
        blocks = [Block(name.removeprefix(prefix), record) for name, record in found]
        if following:
            return BlockPage(blocks, f"{number}.{following}")
        return BlockPage(blocks, f"{int(number) + 1}.0" if int(number) + 1 < len(servers) else None)

    async def _scan(self, server: Any, cursor: int, pattern: str) -> tuple[int, list[tuple[str, bytes]]]:
        """Return the next cursor, 0 after the last page, and a page of keys with their values."""
        following, found = await server("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
        if isinstance(following, dict):  # the cluster client returns cursors by server
            (following,) = following.values()
        records = [(key.decode(errors="replace"), await self._get(key)) for key in found]
        return int(following), [(name, record) for name, record in records if record is not None]

    async def _get(self, key: bytes) -> bytes | None:
        """Return a string; an empty one, which is not a valid block, if the key holds another type of value."""
        try:
            record: bytes | None = await self._call("GET", key)
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return b""
        return record

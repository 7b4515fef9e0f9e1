"""The commands of the store over the Redis protocol that concern shadows."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from service.errors import ModelNotFoundError, StoreCorruptError
from service.store import keys
from service.store.base import Snapshot
from service.store.redis.codecs.model_hash import count
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import record_script, script
from service.store.shadow_store import StoredShadow
from service.store.snapshots.parts import SNAPSHOT_VERSION, check_of
from service.store.stored_models import ModelKey

_PUT = record_script("read_entries", "log_begin", "put_shadow")
_DROP = script("drop_shadow")
_SAVE = record_script("read_entries", "snapshot_there", "save_shadow")
_RESTART = record_script("read_entries", "log_begin", "restart_shadow")
_HOLD = script("hold_rounds")
_CLAIM_DUE = script("claim_due")
_PUT_OFF = script("put_off")


class ShadowCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that concern shadows."""

    @abstractmethod
    async def _write_parts(self, coming: str, state: bytes | memoryview, *, beyond_limit: bool = False) -> int:
        """Write a state to a temporary key in parts; return their number."""

    @abstractmethod
    async def _load(self, name: str) -> Snapshot | None:
        """Return the snapshot under a key, or None."""

    @translating_errors
    async def put_shadow(self, key: ModelKey, name: str, id_: str, text: str) -> bool:
        """See `Store.put_shadow`."""
        named = [keys.model(key.name), keys.log(*key), *keys.of_shadows(*key)]
        put = bool(_unless_gone(key, await self._run(_PUT, named, [key.incarnation, name, id_, text])))
        await self._call("ZADD", keys.SHADOWED, "LT", 0, keys.member(key))
        return put

    @translating_errors
    async def read_shadows(self, key: ModelKey) -> list[StoredShadow]:
        """See `Store.read_shadows`."""
        fields = await self._call("HGETALL", keys.shadows(*key))
        names = sorted(field for field in fields if b":" not in field)
        return [_shadow(key, name, fields) for name in names]

    @translating_errors
    async def drop_shadow(self, key: ModelKey, name: str) -> bool:
        """See `Store.drop_shadow`."""
        named = [keys.model(key.name), *keys.of_shadows(*key)]
        return bool(_unless_gone(key, await self._run(_DROP, named, [key.incarnation, name])))

    @translating_errors
    async def load_shadow(self, key: ModelKey, shadow: StoredShadow) -> Snapshot | None:
        """See `Store.load_shadow`."""
        return await self._load(keys.shadow(*key, shadow.slot))

    @translating_errors
    async def read_comparison(self, key: ModelKey, shadow: StoredShadow) -> bytes:
        """See `Store.read_comparison`."""
        return await self._call("HGET", keys.shadow(*key, shadow.slot), "tally") or b""

    @translating_errors
    async def save_shadow(self, key: ModelKey, shadow: StoredShadow, snapshot: Snapshot) -> int | None:
        """See `Store.save_shadow`."""
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, f"{shadow.id}:{check}")
        parts = await self._write_parts(coming, snapshot.state)
        named = [
            *(keys.model(key.name), keys.log(*key), keys.shadows(*key)),
            *(keys.shadow(*key, shadow.slot), coming),
        ]
        args = [
            *(key.incarnation, shadow.name, shadow.id, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count),
            *(snapshot.last_at or b"", parts, snapshot.statistics, snapshot.damage, check, snapshot.digest),
        ]
        stored = int(_unless_gone(key, await self._run(_SAVE, named, args, self._bulk)))
        return None if stored < 0 else stored

    @translating_errors
    async def hold_rounds(self, key: ModelKey, rounds: int, change_count: int) -> None:
        """See `Store.hold_rounds`."""
        named = [keys.model(key.name), keys.shadows(*key)]
        _unless_gone(key, await self._run(_HOLD, named, [key.incarnation, f"{rounds}-0", change_count]))

    @translating_errors
    async def restart_shadow(self, key: ModelKey, shadow: StoredShadow) -> None:
        """See `Store.restart_shadow`."""
        named = [keys.model(key.name), keys.log(*key), keys.shadows(*key), keys.shadow(*key, shadow.slot)]
        since = f"{shadow.since_rounds}-{shadow.since_changes}"
        in_snapshot = "" if shadow.rounds is None else shadow.rounds
        args = [key.incarnation, shadow.name, shadow.id, since, in_snapshot]
        _unless_gone(key, await self._run(_RESTART, named, args))

    @translating_errors
    async def watch_shadows(self, models: Sequence[ModelKey]) -> None:
        """See `Store.watch_shadows`."""
        if models:
            await self._enlist(keys.SHADOWED, "NX", *(part for key in models for part in (0, keys.member(key))))

    @translating_errors
    async def claim_shadows(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """See `Store.claim_shadows`."""
        members = await self._run(_CLAIM_DUE, [keys.SHADOWED], [repr(offset), limit, repr(seconds)])
        return [keys.of_member(member) for member in members]

    @translating_errors
    async def put_off_shadows(self, key: ModelKey, offset: float, seconds: float) -> None:
        """See `Store.put_off_shadows`."""
        await self._run(_PUT_OFF, [keys.SHADOWED], [keys.member(key), repr(offset), repr(seconds)])

    @translating_errors
    async def unwatch_shadows(self, key: ModelKey) -> None:
        """See `Store.unwatch_shadows`."""
        await self._call("ZREM", keys.SHADOWED, keys.member(key))


def _shadow(key: ModelKey, name: bytes, fields: Mapping[bytes, bytes]) -> StoredShadow:
    """Decode a shadow from the hash of its model's shadows."""

    def number(what: str, absent: bytes | None = None) -> int:
        return count(key.name, f"shadow's {what}", fields.get(name + b":" + what.encode(), absent))

    rounds, _, changes = fields.get(name + b":since", b"").partition(b"-")
    since_rounds, since_changes = (count(key.name, "shadow's since", each) for each in (rounds, changes))
    slot, id_ = number("slot"), fields.get(name + b":id", b"")
    if not id_ or not 1 <= slot <= keys.SHADOW_SLOTS:
        raise StoreCorruptError(f"a shadow of model {key.name!r} cannot be read")
    text = fields[name].decode(errors="replace")
    folded = number("rounds") if name + b":rounds" in fields else None
    restarts = number("restarts", b"0")
    return StoredShadow(name.decode(), id_.decode(), slot, text, since_rounds, since_changes, folded, restarts)


def _unless_gone(key: ModelKey, reply: Any) -> Any:
    if reply is None:
        raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
    return reply

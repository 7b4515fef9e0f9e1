"""The commands of the store over the Redis protocol that import rounds, and trim old ones."""

from collections.abc import Sequence

from service.errors import ModelNotFoundError, StoreCorruptError
from service.store import keys
from service.store.import_store import MOST_SOURCES, Imported, ImportedSource, ImportPart
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import record_script, script
from service.store.stored_models import ModelKey

_IMPORT_ROUNDS = record_script("counts", "book_open", "blocks", "import_rounds")
_FORGET_OLD = record_script("read_entries", "snapshot_there", "forget_old")
_CLAIM_DUE = script("claim_due")

_ENTRIES_AT_ONCE = 2048
"""Maximum log entries to trim per call, in about a millisecond."""


class LogCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that import rounds, and trim old ones."""

    @translating_errors
    async def import_rounds(self, key: ModelKey, part: ImportPart, now: float) -> Imported:
        """See `Store.import_rounds`."""
        named = [*keys.of_blocks(*key), keys.imports(*key)]
        args = [key.incarnation, repr(now), part.digest, part.source, part.place, part.size, MOST_SOURCES]
        reply = await self._run(
            _IMPORT_ROUNDS, named, [*args, *(each for block in part.blocks for each in block)], self._confirmed
        )
        if reply is None:
            raise ModelNotFoundError(f"there is no model {key.name!r}", "name")
        position, rounds, changes, appended = reply
        return Imported(int(position), int(rounds), int(changes), bool(appended))

    @translating_errors
    async def read_imports(self, key: ModelKey) -> list[ImportedSource]:
        """See `Store.read_imports`."""
        fields: dict[bytes, bytes] = await self._call("HGETALL", keys.imports(*key))
        found = [_source(name, value) for name, value in fields.items()]
        return sorted(found, key=lambda each: (-each.at, each.source))

    @translating_errors
    async def watch_retention(self, models: Sequence[ModelKey]) -> None:
        """See `Store.watch_retention`."""
        if models:
            await self._enlist(keys.RETENTION, "NX", *(part for key in models for part in (0, keys.member(key))))

    @translating_errors
    async def claim_old(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """See `Store.claim_old`."""
        members = await self._run(_CLAIM_DUE, [keys.RETENTION], [repr(offset), limit, repr(seconds)])
        return [keys.of_member(member) for member in members]

    @translating_errors
    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        """See `Store.forget_old`."""
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), keys.shadows(*key)]
        reply = await self._run(_FORGET_OLD, named, [key.incarnation, repr(offset), _ENTRIES_AT_ONCE])
        if reply is None:
            await self._call("ZREM", keys.RETENTION, keys.member(key))
            return False
        upcoming, waits = reply
        await self._enlist(keys.RETENTION, "XX", upcoming, keys.member(key))
        return bool(waits)


def _source(name: bytes, value: bytes) -> ImportedSource:
    position, _, at = value.partition(b" ")
    if not position.isdigit():
        raise StoreCorruptError(f"the position of the import {name.decode(errors='replace')!r} is damaged")
    return ImportedSource(name.decode(), int(position), float(at))

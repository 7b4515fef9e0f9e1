"""The commands of the store over the Redis protocol that write, read and keep snapshots, and create models from one."""

import asyncio
import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError, StoreUnavailableError
from service.store import keys
from service.store.base import Snapshot
from service.store.copies import ModelCopy
from service.store.damage import DamagedSnapshotError
from service.store.kept_store import MOST_KEPT, Keeping, KeptNote
from service.store.redis.codecs.entry_codec import CHANGE_VERSION
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import record_script, script
from service.store.shadow_store import KEPT_FOR_SHADOWS
from service.store.snapshots.parts import SNAPSHOT_VERSION, check_of, read_snapshot
from service.store.stored_models import ModelKey, StoredPolicies, digests_of

_PART_BYTES = 2**20
"""Bytes per part of a snapshot. The store accepts a part in one or two milliseconds."""

_UNFINISHED_SECONDS = 3600
"""Time to live of the parts of an unfinished snapshot."""

_WRITE_PART = script("write_part")
_SAVE_SNAPSHOT = record_script("read_entries", "snapshot_there", "shadow_rounds", "save_snapshot")
_KEEP_SNAPSHOT = record_script("read_entries", "keep_snapshot")
_DROP_KEPT = script("drop_kept")
_CREATE_COPY = script("create_copy")


class SnapshotCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that concern snapshots."""

    @abstractmethod
    async def watch(self, key: ModelKey, policies: StoredPolicies) -> None:
        """See `ModelCommands.watch`."""

    @translating_errors
    async def load_snapshot(self, key: ModelKey) -> Snapshot | None:
        """See `Store.load_snapshot`."""
        return await self._load(keys.snapshot(*key))

    @translating_errors
    async def save_snapshot(self, key: ModelKey, snapshot: Snapshot, retain_rounds: int) -> int:
        """See `Store.save_snapshot`."""
        # The temporary key is named by its content, so two workers can write the same snapshot concurrently.
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, check)
        parts = await self._write_parts(coming, snapshot.state, beyond_limit=True)  # the log is trimmed by snapshots
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), coming, keys.shadows(*key)]
        args = [
            *(key.incarnation, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count, snapshot.last_at or b""),
            *(parts, retain_rounds, snapshot.statistics, snapshot.damage, check, KEPT_FOR_SHADOWS, snapshot.digest),
        ]
        return int(_unless_gone(key, await self._run(_SAVE_SNAPSHOT, named, args, self._bulk)))

    @translating_errors
    async def keep_snapshot(self, key: ModelKey, note: KeptNote, snapshot: Snapshot) -> Keeping:
        """See `KeptStore.keep_snapshot`."""
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_kept(*key, note.id, check)
        parts = await self._write_parts(coming, snapshot.state)
        kept, list_ = keys.kept_snapshot(*key, note.id), keys.kept(*key)
        named = [keys.model(key.name), keys.log(*key), list_, coming, kept]
        args = [
            *(key.incarnation, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count, snapshot.last_at or b""),
            *(parts, snapshot.statistics, snapshot.damage, check, note.id, _encoded(note), MOST_KEPT, snapshot.digest),
        ]
        return Keeping(_unless_gone(key, await self._run(_KEEP_SNAPSHOT, named, args, self._bulk)).decode())

    @translating_errors
    async def list_kept(self, key: ModelKey) -> Sequence[KeptNote]:
        """See `KeptStore.list_kept`."""
        found = await self._call("HGETALL", keys.kept(*key))
        return sorted((_decoded(key, id_, text) for id_, text in found.items()), key=lambda note: (note.at, note.id))

    @translating_errors
    async def load_kept(self, key: ModelKey, id_: str) -> Snapshot | None:
        """See `KeptStore.load_kept`."""
        return await self._load(keys.kept_snapshot(*key, id_))

    @translating_errors
    async def drop_kept(self, key: ModelKey, id_: str, digest: bytes, needed_by: int) -> Keeping:
        """See `KeptStore.drop_kept`."""
        named = [keys.model(key.name), keys.log(*key), keys.kept(*key), keys.kept_snapshot(*key, id_)]
        reply = await self._run(_DROP_KEPT, named, [key.incarnation, id_, digest, needed_by])
        return Keeping(_unless_gone(key, reply).decode())

    @translating_errors
    async def create_copy(self, key: ModelKey, copy: ModelCopy, now: float) -> bool:
        """See `CopyStore.create_copy`."""
        snapshot, policies = copy.snapshot, copy.policies
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, check)
        parts = await self._write_parts(coming, snapshot.state)
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), coming, keys.imports(*key)]
        args = [
            *(key.incarnation, copy.definition, repr(now), copy.summary, policies.closing, policies.retention),
            *("".join(f"{line}\n" for line in copy.history), snapshot.round_count, snapshot.change_count),
            *(copy.counts.correct, repr(copy.counts.partial), copy.counts.expired, CHANGE_VERSION, copy.history[-1]),
            *(SNAPSHOT_VERSION, parts, snapshot.statistics, check),
            *(digests_of((copy.definition, *copy.history)), snapshot.digest),
            *(part for each in copy.imports for part in (each.source, f"{each.position} {each.at!r}")),
        ]
        await self._call("ZADD", keys.MODELS, 0, key.name)  # before and after, as in `create_model`
        created = await self._run(_CREATE_COPY, named, args, self._bulk)
        if created < 0:
            raise StoreUnavailableError("the state of the new model was lost before it was complete; try again")
        if created:
            await self._call("ZADD", keys.MODELS, 0, key.name)
            await self.watch(key, policies)
        return bool(created)

    async def _write_parts(self, coming: str, state: bytes | memoryview, *, beyond_limit: bool = False) -> int:
        """Write a state to a temporary key in parts, because one command with a large state would block the store."""
        starts = range(0, max(len(state), 1), _PART_BYTES)
        for number, start in enumerate(starts):
            field, part = f"{number:06d}", state[start : start + _PART_BYTES]
            if beyond_limit:
                await self._run(_WRITE_PART, [coming], [field, part, _UNFINISHED_SECONDS], self._bulk)
            else:
                await self._call("HSET", coming, field, part, connection=self._bulk)
                await self._call("EXPIRE", coming, _UNFINISHED_SECONDS, connection=self._bulk)
        return len(starts)

    async def _load(self, name: str) -> Snapshot | None:
        try:
            fields = await self._call("HGETALL", name, connection=self._bulk)
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            raise DamagedSnapshotError("its key holds another type of value") from error
        return await read_snapshot(fields) if fields else None


def _encoded(note: KeptNote) -> str:
    return json.dumps(note._asdict(), separators=(",", ":"))


def _decoded(key: ModelKey, id_: bytes, text: bytes) -> KeptNote:
    """Decode a note.

    Raises:
        NewerVersionError: if it has fields that this version does not have.
        StoreCorruptError: if it cannot be read.
    """
    try:
        fields = dict(json.loads(text))
        if unknown := sorted(set(fields) - set(KeptNote._fields)):
            raise NewerVersionError(
                f"a kept snapshot has the field {unknown[0]!r}, which this version does not support"
            )
        note = KeptNote(**fields)
        if (type(note.round_count), type(note.change_count)) != (int, int) or note.id.encode() != id_:
            raise ValueError(note.id)
        return note._replace(at=float(note.at))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreCorruptError(f"the kept snapshots of model {key.name!r} cannot be read: {error}") from error


def _unless_gone(key: ModelKey, reply: Any) -> Any:
    if reply is None:
        raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
    return reply

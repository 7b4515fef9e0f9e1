"""The commands of the store over the Redis protocol that create, read, list, change and delete models."""

import asyncio
from abc import abstractmethod

from redis import exceptions

from service.errors import ModelNotFoundError, SnapshotNotFoundError, StoreError
from service.store import keys
from service.store.redis.codecs.entry_codec import CHANGE_VERSION
from service.store.redis.codecs.model_hash import NAME_ERRORS, read_listed, read_model
from service.store.redis.commands import Commands
from service.store.redis.driver_errors import translating_errors
from service.store.scripts import script
from service.store.stored_models import (
    NO_POLICIES,
    ListedModel,
    ModelKey,
    ModelPage,
    StoredModel,
    StoredPolicies,
    UnreadModel,
    digest_after,
    digests_of,
)

_CREATE_MODEL = script("create_model")
_LIST_MODEL = script("list_model")
_KEEP_SUMMARY = script("keep_summary")
_CHANGE_MODEL = script("counts", "change_model")
_DELETE_MODEL = script("delete_model")

_NOT_KEPT = 2
_OTHERS_KEPT = 3


class ModelCommands(Commands):
    """The methods of `service.store.redis.redis_store.RedisStore` that concern models as a whole."""

    @abstractmethod
    async def unwatch_closing(self, key: ModelKey) -> None:
        """See `ClosingCommands.unwatch_closing`."""

    @translating_errors
    async def create_model(
        self, key: ModelKey, definition: str, now: float, summary: str = "", policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """See `Store.create_model`."""
        # List the name before and after: an earlier model with this name may be deleted in between.
        await self._call("ZADD", keys.MODELS, 0, key.name)
        digest = digests_of([definition])
        args = (key.incarnation, definition, repr(now), digest, summary, policies.closing, policies.retention)
        created = bool(await self._run(_CREATE_MODEL, [keys.model(key.name)], args))
        if created:
            await self._call("ZADD", keys.MODELS, 0, key.name)
            await self.watch(key, policies)
        return created

    @translating_errors
    async def get_model(self, name: str) -> StoredModel | None:
        """See `Store.get_model`."""
        return read_model(name, await self._call("HGETALL", keys.model(name)))

    @translating_errors
    async def list_models(self, after: str, limit: int) -> ModelPage:
        """See `Store.list_models`."""
        start = b"(" + after.encode(errors=NAME_ERRORS) if after else "-"
        raw = await self._call("ZRANGE", keys.MODELS, start, "+", "BYLEX", "LIMIT", 0, limit)
        names = [name.decode(errors=NAME_ERRORS) for name in raw]
        found = await asyncio.gather(*(self._list_entry(name) for name in names))
        cursor = names[-1] if len(names) == limit else None
        return ModelPage([model for model in found if model is not None], cursor)

    @translating_errors
    async def list_model(self, name: str) -> ListedModel | None:
        """See `Store.list_model`."""
        return read_listed(name, await self._run(_LIST_MODEL, [keys.model(name)], ()))

    @translating_errors
    async def keep_summary(self, key: ModelKey, summary: str) -> bool:
        """See `Store.keep_summary`."""
        return bool(await self._run(_KEEP_SUMMARY, [keys.model(key.name)], (key.incarnation, summary)))

    @translating_errors
    async def change_model(
        self, key: ModelKey, digest: bytes, change: str, summary: str, policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """See `Store.change_model`."""
        after = digest_after(digest, change.encode())
        args = (key.incarnation, digest, after, CHANGE_VERSION, change, summary, *policies)
        reply = await self._run(_CHANGE_MODEL, [keys.model(key.name), keys.log(*key), keys.kept(*key)], args)
        if reply is None:
            raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
        if reply == _NOT_KEPT:
            raise SnapshotNotFoundError("the model does not have this snapshot", "snapshot")
        if reply:
            await self.watch(key, policies)
        return bool(reply)

    async def watch(self, key: ModelKey, policies: StoredPolicies) -> None:
        """List a model among those that the store visits; it is due at once, as its window may be shorter now."""
        for listed, wanted in ((keys.CLOSING, policies.closing), (keys.RETENTION, policies.retention)):
            if wanted:
                await self._enlist(listed, "LT", 0, keys.member(key))

    @translating_errors
    async def delete_model(self, name: str) -> bool:
        """See `Store.delete_model`."""
        own = await self._incarnation(name) or b""
        deleted = await self._delete(name, own)
        await self._call("ZREM", keys.MODELS, name)
        await self._call("ZREM", keys.DAMAGED, name)
        await self.unwatch_closing(ModelKey(name, own.decode(errors="replace")))
        await self._call("ZREM", keys.SHADOWED, keys.member(ModelKey(name, own.decode(errors="replace"))))
        if await self._incarnation(name) is not None:  # a new model has taken the name
            await self._call("ZADD", keys.MODELS, 0, name)
        return deleted

    async def _delete(self, name: str, own: bytes) -> bool:
        """Delete the lasting keys of an incarnation, and its kept snapshots; read these again if there are others."""
        incarnation, reply = own.decode(errors="replace"), _OTHERS_KEPT
        while reply == _OTHERS_KEPT:
            ids = await self._kept_ids(ModelKey(name, incarnation))
            kept = [keys.kept_snapshot(name, incarnation, id_) for id_ in ids]
            reply = await self._run(_DELETE_MODEL, [*keys.lasting(name, incarnation), *kept], [own, *ids])
        return bool(reply)

    async def _kept_ids(self, key: ModelKey) -> list[str]:
        try:
            return [id_.decode(errors="replace") for id_ in await self._call("HKEYS", keys.kept(*key))]
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return []

    async def _list_entry(self, name: str) -> ListedModel | UnreadModel | None:
        if not name.isascii():
            return None  # not a valid model name: no request can refer to it
        try:
            return await self.list_model(name)
        except StoreError as error:
            return UnreadModel(name, error)

    async def _incarnation(self, name: str) -> bytes | None:
        """Return the incarnation under a name; None if there is none, or the key does not hold a model."""
        try:
            found: bytes | None = await self._call("HGET", keys.model(name), "incarnation")
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return None
        return found

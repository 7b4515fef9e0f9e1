"""A fail-over to a replica that lacks the last commands of a model."""

from service.store import keys
from service.store.redis.redis_store import RedisStore


class LaggingReplica:
    """The keys of a model as they were at some moment, which come back in a fail-over.

    Args:
        store: the primary.
        name: the model.
        kept: the parts of names of keys that the replica has as they are at the fail-over: predictions, by default. A
            replica that loses one command keeps none after it, but a worker may write a prediction after the fail-over.
    """

    def __init__(self, store: RedisStore, name: str, *kept: str) -> None:
        self._store = store
        self._pattern = keys.model(name).removesuffix("model") + "*"
        self._kept = (":p:", *kept)
        self._copies = dict[bytes, bytes]()

    async def copy(self) -> None:
        """Copy what the primary has."""
        self._copies = {key: await self._store.command("DUMP", key) for key in await self._keys()}

    async def take_over(self) -> None:
        """Replace the keys by the copies."""
        for key in await self._keys():
            await self._store.command("DEL", key)
        for key, data in self._copies.items():
            await self._store.command("RESTORE", key, 0, data)

    async def _keys(self) -> list[bytes]:
        found = await self._store.command("KEYS", self._pattern)
        return [key for key in found if not any(part.encode() in key for part in self._kept)]

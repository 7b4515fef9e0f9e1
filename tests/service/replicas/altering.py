"""Changes of models, made in the store without a worker, and what workers then fold."""

import asyncio
from collections.abc import Sequence
from typing import Any

from service.compute import Compute
from service.models.changes import Change
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.store import keys
from service.store.capabilities import Store
from service.store.connections.pipeline import Word
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import DIGEST_BYTES, StoredModel, digests_of
from tests.service.sample_models import COMPUTE
from tests.service.store.samples import digest_of


async def alter(store: RedisStore, model: Model, number: int, **what: Any) -> None:
    """Make a change of a model."""
    change = Change(at=float(number), **what)
    assert await store.change_model(model.key, await digest_of(store, model.name), change.encode(), "{}")


async def replace_change(store: RedisStore, model: Model, change: str) -> None:
    """Replace the only change of a model in its log and its history, as if the store had lost it before another."""
    log = keys.log(*model.key)
    entries = await store.command("XRANGE", log, "-", "+")
    await store.command("DEL", log)
    for entry, fields in entries:
        pairs = dict(fields) if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
        pairs |= {b"d": change} if pairs[b"t"] == b"c" else {}
        await store.command("XADD", log, entry, *(part for pair in pairs.items() for part in pair))
    await write_history(store, model.name, [change])


async def write_history(store: RedisStore, name: str, lines: Sequence[str]) -> None:
    """Replace the history of a model, which its log need not have."""
    (definition,) = await store.command("HMGET", keys.model(name), "definition")
    digests = digests_of([definition.decode(), *lines])
    fields: dict[str, Word] = {"changes": len(lines), "history": "".join(f"{line}\n" for line in lines)}
    fields |= {"digests": digests, "digest": digests[-DIGEST_BYTES:]}
    await store.command("HSET", keys.model(name), *(part for pair in fields.items() for part in pair))


async def lose_change(store: RedisStore, model: Model) -> None:
    """Remove the only change of a model, which has no rounds, as if the store had lost it."""
    await store.command("DEL", keys.log(*model.key))
    await write_history(store, model.name, [])


async def fresh(store: Store, model: Model, compute: Compute = COMPUTE) -> Replica:
    """Return a new replica that has folded the log."""
    replica = Replica(model, store, compute)
    async with asyncio.timeout(60.0):
        await replica.catch_up()
    return replica


async def stored(store: Store, name: str) -> StoredModel:
    """Return a model as it is stored."""
    found = await store.get_model(name)
    assert found is not None
    return found


async def current(store: Store, name: str) -> Model:
    """Return a model after its last change."""
    return stored_model(await stored(store, name))

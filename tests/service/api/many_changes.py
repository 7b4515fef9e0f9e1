"""A model with as many changes as a model may have."""

import itertools
import json

import httpx2

from service.catalogue.changing import MOST_CHANGES
from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import definition


async def make_many_changes(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """Create a model and write its history to the store; some changes add labels."""
    await client.delete(f"/models/{name}")
    assert (await client.post("/models", json=definition(name))).is_success
    lines = [
        {"labels": {"add": [f"label {i:020} {j}" for j in range(40)]}} if i % 200 == 0 else {"policies": {"mode": mode}}
        for i, mode in zip(range(MOST_CHANGES), itertools.cycle(["frozen", "online"]), strict=False)
    ]
    history = "".join(json.dumps(each | {"at": 1.0 + i}) + "\n" for i, each in enumerate(lines))
    await store.command("HSET", keys.model(name), "changes", MOST_CHANGES, "history", history)

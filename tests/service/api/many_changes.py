"""A model with as many changes as a model may have."""

import itertools
import json
from typing import Any

import httpx2

from service.registry.changing import MOST_CHANGES
from service.store.redis.redis_store import RedisStore
from tests.service.replicas.altering import write_history
from tests.service.sample_models import definition


async def make_many_changes(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """Create a model and write its history to the store; the last changes add most of the labels that it may have."""
    await client.delete(f"/models/{name}")
    assert (await client.post("/models", json=definition(name))).is_success
    lines: list[dict[str, Any]] = [
        {"policies": {"mode": mode}}
        for _, mode in zip(range(MOST_CHANGES - 200), itertools.cycle(["frozen", "online"]), strict=False)
    ]
    lines += [{"labels": {"add": [f"label {i:020} {j}" for j in range(480)]}} for i in range(200)]
    await write_history(store, name, [json.dumps(each | {"at": 1.0 + i}) for i, each in enumerate(lines)])

"""What the laws of stores need."""

import asyncio
from collections.abc import Iterator

import pytest

from service.store.base import Store
from service.store.redis_store import RedisStore


@pytest.fixture
def any_store(any_store_url: str, runner: asyncio.Runner) -> Iterator[Store]:
    """Each store in turn."""
    store = RedisStore(any_store_url, timeout=5.0)
    yield store
    runner.run(store.close())

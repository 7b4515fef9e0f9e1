"""Fixtures for the laws of stores."""

import asyncio
from collections.abc import Iterator

import pytest

from service.store.capabilities import Store
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.store.samples import NOW
from tests.service.store.scenario import Scenario


@pytest.fixture
def any_store(any_store_url: str, runner: asyncio.Runner) -> Iterator[Store]:
    store = RedisStore(any_store_url, timeout=5.0)
    yield store
    runner.run(store.close())


@pytest.fixture
def scenario(any_store: Store, runner: asyncio.Runner, name: str) -> Scenario:
    key = ModelKey(name, "first")
    assert runner.run(any_store.create_model(key, "{}", NOW))
    return Scenario(any_store, key)

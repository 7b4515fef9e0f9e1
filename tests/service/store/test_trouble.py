"""The laws of stores in trouble: full, stopped, or without room; what they refuse changes nothing."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreFullError, StoreUnavailableError
from service.store import keys
from service.store.base import FeedbackStatus, Store
from service.store.embedded.server import EmbeddedServer
from tests.fleets import Cluster
from tests.servers import REDIS_SERVER, raw, redis_server
from tests.service.store.calls import GIVEN, KEY, READS, WRITES, open_store
from tests.service.store.samples import NOW, STRICT, WINDOW, sample_predictions
from tests.service.store.troubles import TROUBLES, Trouble, in_trouble


@pytest.fixture(params=["embedded-valkey", "redis-server"])
def private_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of this test's own, of each kind."""
    if request.param == "embedded-valkey":
        with EmbeddedServer(tmp_path) as server:
            yield server.url
    elif REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    else:
        with redis_server(tmp_path) as url:
            yield url


async def fill(store: Store) -> None:
    """A model with an open prediction."""
    await store.create_model(KEY, "{}", NOW)
    await store.add_predictions(KEY, sample_predictions("open"), WINDOW, None)


def everything(url: str) -> dict[Any, Any]:
    """The value of each key."""
    with raw(url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


async def test_a_full_store_refuses_writes_and_changes_nothing(private_url: str) -> None:
    """Out of memory, every writing call raises StoreFullError, nothing is written, and reading goes on."""
    async with open_store(private_url) as store:
        await fill(store)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
        before = everything(private_url)
        for write in WRITES.values():
            with pytest.raises(StoreFullError):
                await write(store)
        assert everything(private_url) == before
        for read in READS.values():
            await read(store)
        assert await store.delete_model("forest")


async def test_a_store_with_room_again_takes_the_same_feedback(private_url: str) -> None:
    """What a full store refused is recorded, once, when it is repeated with memory left."""
    async with open_store(private_url) as store:
        await fill(store)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreFullError):
                await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
            client.config_set("maxmemory", 0)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.RECORDED


async def test_a_full_store_still_confirms_what_it_has(private_url: str) -> None:
    """Feedback that changes nothing is answered as ever, though it cannot be counted."""
    async with open_store(private_url) as store:
        await fill(store)
        await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.DUPLICATE


async def until(readiness: Callable[[], Coroutine[Any, Any, Any]], good: bool) -> str:
    """Asks until the store is ready, or is not; what it says then."""
    async with asyncio.timeout(30.0):
        while True:
            try:
                said = str(await readiness())
                if good:
                    return said
            except StoreUnavailableError as error:
                if not good:
                    return error.detail
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_store_is_ready_when_it_takes_writes(private_url: str, trouble: Trouble) -> None:
    """In each trouble it is not, though nobody else writes, and says why, as each write does; reading goes on."""
    async with open_store(private_url) as store:
        await fill(store)
        await store.check()
        with in_trouble(private_url, trouble):
            assert re.search(trouble.says, await until(store.check, good=False))
            for write in WRITES.values():
                with pytest.raises((StoreUnavailableError, StoreFullError), match=trouble.says):
                    await write(store)
            for read in READS.values():
                await read(store)
        await until(store.check, good=True)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.RECORDED


async def test_readiness_leaves_nothing(private_url: str) -> None:
    """What it writes is one key, which is soon forgotten."""
    async with open_store(private_url) as store:
        for _ in range(3):
            await store.check()
        with raw(private_url) as client:
            (key,) = client.scan_iter()
            assert key == keys.probe("").encode()
            assert 0 < client.ttl(key) <= 10


async def test_one_primary_that_takes_no_writes_is_enough(small_cluster: Cluster) -> None:
    """A cluster is ready when each primary takes writes; each has its own key, in a slot that it has."""
    async with open_store(small_cluster.url) as store:
        primaries = await store._connection.primaries()
        probes = [primary.probe for primary in primaries if primary.probe is not None]
        owners = [small_cluster.owner(small_cluster.slot(probe)) for probe in probes]
        assert len(set(owners)) == len(primaries) == 3
        for server in owners:
            await store.check()
            server.send("CONFIG", "SET", "min-replicas-to-write", 5)
            try:
                with pytest.raises(StoreUnavailableError, match="refuses writes: NOREPLICAS"):
                    await store.check()
            finally:
                server.send("CONFIG", "SET", "min-replicas-to-write", 0)
        await store.check()


async def test_a_store_that_may_evict_is_not_ready(private_url: str) -> None:
    """With a memory limit and an eviction policy, models could vanish: the store is not ready, and says why."""
    async with open_store(private_url) as store:
        with raw(private_url) as client:
            client.config_set("maxmemory", "1gb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreUnavailableError, match=r"allkeys-lru.*noeviction"):
            await store.check()


async def test_a_store_without_its_file_warns(private_url: str) -> None:
    """Without an append-only file the store is ready, but says that a stop loses everything."""
    async with open_store(private_url) as store:
        with raw(private_url) as client:
            client.config_set("appendonly", "no")
        facts = await store.check()
        assert facts.warnings == [facts.persistence]
        assert "lost when the store stops" in facts.persistence

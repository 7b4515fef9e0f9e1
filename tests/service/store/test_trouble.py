"""The laws of stores that are full, stopped or unable to write: refused calls change nothing."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreFullError, StoreUnavailableError
from service.store import keys
from service.store.capabilities import Store
from service.store.embedded.server import EmbeddedServer
from service.store.values import FeedbackStatus, Snapshot
from tests.clusters import Cluster
from tests.servers import REDIS_SERVER, raw, redis_server
from tests.service.store.calls import GIVEN, KEY, OTHERS, READS, REFUSED_WHEN_FULL, WRITES, open_store
from tests.service.store.samples import NOW, STRICT, WINDOW, sample_predictions
from tests.service.store.troubles import TROUBLES, Trouble, in_trouble


@pytest.fixture(params=["embedded-valkey", "redis-server"])
def private_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "embedded-valkey":
        with EmbeddedServer(tmp_path) as server:
            yield server.url
    elif REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    else:
        with redis_server(tmp_path) as url:
            yield url


async def fill(store: Store) -> None:
    await store.create_model(KEY, "{}", NOW)
    await store.add_predictions(KEY, sample_predictions("open"), WINDOW, None)


def dump_all(url: str) -> dict[Any, Any]:
    with raw(url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


async def test_a_full_store_takes_no_more_data_and_does_the_rest(private_url: str) -> None:
    async with open_store(private_url) as store:
        await fill(store)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
        before = dump_all(private_url)
        for refused in sorted(REFUSED_WHEN_FULL):
            with pytest.raises(StoreFullError):
                await WRITES[refused](store)
        assert dump_all(private_url) == before
        for read in READS.values():
            await read(store)
        statuses = [(await store.add_feedback(KEY, [GIVEN], STRICT, NOW))[0].status for _ in range(2)]
        assert statuses == [FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE]
        assert (await store.read_tail(KEY, 0, 10)).round_count == 1
        assert await store.save_snapshot(KEY, Snapshot(1, b"state"), 10) == 1
        assert await store.load_snapshot(KEY) is not None
        for name, call in (WRITES | OTHERS).items():
            if name not in REFUSED_WHEN_FULL:
                await call(store)
        assert await store.get_model("forest") is None


async def test_readiness_reports_eviction_and_a_missing_log_and_leaves_one_expiring_key(private_url: str) -> None:
    async with open_store(private_url) as store:
        for _ in range(3):
            await store.check()
        with raw(private_url) as client:
            (key,) = client.scan_iter()
            assert key == keys.probe("").encode()
            assert 0 < client.ttl(key) <= 10
            client.config_set("appendonly", "no")
            facts = await store.check()
            assert facts.warnings == [facts.persistence]
            assert "lost when the store stops" in facts.persistence
            client.config_set("maxmemory", "1gb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreUnavailableError, match=r"allkeys-lru.*noeviction"):
            await store.check()


async def wait_for_readiness(readiness: Callable[[], Coroutine[Any, Any, Any]], good: bool) -> str:
    async with asyncio.timeout(30.0):
        while True:
            try:
                report = str(await readiness())
                if good:
                    return report
            except StoreUnavailableError as error:
                if not good:
                    return error.detail
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_store_is_ready_only_if_it_accepts_writes(private_url: str, trouble: Trouble) -> None:
    async with open_store(private_url) as store:
        await fill(store)
        await store.check()
        with in_trouble(private_url, trouble):
            assert re.search(trouble.says, await wait_for_readiness(store.check, good=False))
            for write in WRITES.values():
                with pytest.raises(trouble.refusal, match=trouble.says):
                    await write(store)
            for read in READS.values():
                await read(store)
        await wait_for_readiness(store.check, good=True)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.RECORDED


async def test_one_primary_without_writes_makes_a_cluster_unready(small_cluster: Cluster) -> None:
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

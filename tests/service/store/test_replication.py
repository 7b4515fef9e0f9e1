"""The laws of replicated feedback: acknowledged feedback is on the replicas, even after failed attempts."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.errors import ModelNotFoundError, StoreUnavailableError
from service.settings import Settings
from service.store import keys
from service.store.stored_models import ModelKey
from service.store.values import FeedbackStatus
from tests.fleets import SentinelStore, sentinels
from tests.servers import REDIS_SERVER, wait_until
from tests.service.store.calls import open_store
from tests.service.store.samples import NEW, NOW
from tests.service.store.scenario import Scenario
from tests.store_servers import Server

_names = (f"forest-{number}" for number in itertools.count())


@asynccontextmanager
async def opened(url: str, replicas: int = 1, patience: float = 1.0) -> AsyncIterator[Scenario]:
    async with open_store(url, patience, replicas=replicas) as store:
        key = ModelKey(next(_names), "first")
        await store.create_model(key, "{}", NOW)
        await Scenario(store, key).predict("a", "b")
        yield Scenario(store, key)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelStore]:
    if request.param == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if request.param == "redis" else None
    with sentinels(tmp_path_factory.mktemp("watched"), 60_000, binary=binary) as running:
        yield running


@pytest.fixture(params=["one server", "Sentinels"])
def url(request: pytest.FixtureRequest, watched: SentinelStore) -> str:
    return watched.url if request.param == "Sentinels" else watched.url_of(watched.servers[0])


async def test_readiness_waits_for_the_replica(watched: SentinelStore, url: str) -> None:
    async with open_store(url, 1.0, replicas=1) as store:
        await store.check()
        with stopped(watched.servers[1]), pytest.raises(StoreUnavailableError, match="0 of 1 replicas"):
            await store.check()
        await store.check()


async def test_feedback_is_acknowledged_once_the_replica_has_it(watched: SentinelStore, url: str) -> None:
    async with opened(url) as scenario:
        watched.servers[0].send("SCRIPT", "FLUSH")
        for number, own in enumerate("ab", 1):
            assert await scenario.confirm(own) == [FeedbackStatus.RECORDED]
            assert watched.servers[1].send("HGET", keys.model(scenario.key.name), "rounds") == str(number)


async def test_unreplicated_feedback_is_not_acknowledged(watched: SentinelStore, url: str) -> None:
    async with opened(url, patience=2.0) as scenario:
        with stopped(watched.servers[1]):
            for _ in range(2):
                async with open_store(url, 2.0, replicas=1) as store:
                    with pytest.raises(StoreUnavailableError, match="only to 0 of 1 replicas within 1 s"):
                        await Scenario(store, scenario.key).confirm("a")
        await asyncio.to_thread(wait_until, watched.is_whole)
        assert await scenario.confirm("a", "b") == [FeedbackStatus.DUPLICATE, FeedbackStatus.RECORDED]


async def test_only_feedback_waits_for_replicas(watched: SentinelStore, url: str) -> None:
    """Predictions and changes of models are acknowledged without them."""
    async with opened(url, patience=4.0) as scenario:
        with stopped(watched.servers[1]):
            waiting = asyncio.create_task(scenario.confirm("a"))
            while (await scenario.store.read_tail(scenario.key, 0, 10)).round_count == 0:
                assert not waiting.done()
            assert await scenario.predict("c") == [None]
            assert await scenario.store.change_model(scenario.key, NEW, "{}", "")
            assert not waiting.done()
        assert await waiting == [FeedbackStatus.RECORDED]
        with pytest.raises(ModelNotFoundError):
            await Scenario(scenario.store, ModelKey("gone", "first")).confirm("a")


async def test_missing_replicas_prevent_acknowledgment(url: str) -> None:
    async with opened(url, replicas=2, patience=0.5) as scenario:
        with pytest.raises(StoreUnavailableError, match="to 1 of 2 replicas"):
            await scenario.confirm("a")
    async with opened(url, replicas=0) as scenario:
        assert await scenario.confirm("a") == [FeedbackStatus.RECORDED]


@pytest.mark.parametrize(
    ("given", "reason"),
    [({}, "the embedded store has no replicas"), ({"store_url": "redis+cluster://127.0.0.1"}, "URL of a cluster")],
)
def test_waiting_for_replicas_needs_a_store_that_can_have_some(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Settings(wait_replicas=1, **given)  # type: ignore[arg-type]

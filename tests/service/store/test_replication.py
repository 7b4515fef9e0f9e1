"""The laws of replicated feedback: acknowledged feedback is on the replicas, even after failed attempts."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from service.errors import ModelNotFoundError, StoreUnavailableError
from service.settings import Settings
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackStatus
from tests.fleets import SentinelStore, sentinels
from tests.servers import REDIS_SERVER, wait_until
from tests.service.sample_models import definition
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions
from tests.service.workers import worker
from tests.store_servers import Server

_names = (f"forest-{number}" for number in itertools.count())


class Scenario(NamedTuple):
    """A store that waits for replicas, with a new model and its open predictions "a" and "b"."""

    store: RedisStore
    key: ModelKey

    async def judge(self, *owns: str) -> list[FeedbackStatus]:
        """Report that each prediction was right."""
        results = await self.store.add_feedback(
            self.key, [Feedback(id_of(own), True, None) for own in owns], STRICT, NOW
        )
        return [result.status for result in results]


@asynccontextmanager
async def connected(url: str, replicas: int = 1, patience: float = 1.0) -> AsyncIterator[RedisStore]:
    """Connect like one worker."""
    store = RedisStore(url, patience, replicas=replicas)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened(url: str, replicas: int = 1, patience: float = 1.0) -> AsyncIterator[Scenario]:
    """Create a model for one test."""
    async with connected(url, replicas, patience) as store:
        key = ModelKey(next(_names), "first")
        await store.create_model(key, "{}", NOW)
        await store.add_predictions(key, sample_predictions("a", "b"), WINDOW, None)
        yield Scenario(store, key)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Stop a server's process, which looks like a silent network."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelStore]:
    """Start a primary and a replica of each program, with Sentinels that do not fail over during the tests."""
    if request.param == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if request.param == "redis" else None
    with sentinels(tmp_path_factory.mktemp("watched"), 60_000, binary=binary) as running:
        yield running


@pytest.fixture(params=["one server", "Sentinels"])
def url(request: pytest.FixtureRequest, watched: SentinelStore) -> str:
    """Return the primary's URL, direct and by the Sentinels."""
    return watched.url if request.param == "Sentinels" else watched.url_of(watched.servers[0])


async def test_readiness_waits_for_the_replica(watched: SentinelStore, url: str) -> None:
    """If feedback could not be acknowledged for lack of a replica, the store is not ready."""
    async with connected(url, patience=1.0) as store:
        await store.check()
        with stopped(watched.servers[1]), pytest.raises(StoreUnavailableError, match="0 of 1 replicas"):
            await store.check()
        await store.check()


async def test_feedback_is_acknowledged_once_the_replica_has_it(watched: SentinelStore, url: str) -> None:
    """On return the round is on the replica, also if the script had to be loaded first."""
    async with opened(url) as scenario:
        watched.servers[0].send("SCRIPT", "FLUSH")
        for number, own in enumerate("ab", 1):
            assert await scenario.judge(own) == [FeedbackStatus.RECORDED]
            assert watched.servers[1].send("HGET", keys.model(scenario.key.name), "rounds") == str(number)


async def test_unreplicated_feedback_is_not_acknowledged(watched: SentinelStore, url: str) -> None:
    """While the replica hangs, no worker's attempt succeeds; afterwards the feedback is a duplicate."""
    async with opened(url, patience=0.5) as scenario:
        with stopped(watched.servers[1]):
            for _ in range(2):
                async with connected(url, patience=0.5) as store:
                    with pytest.raises(StoreUnavailableError, match=r"only to 0 of 1 replicas within 0\.25 s"):
                        await Scenario(store, scenario.key).judge("a")
        await asyncio.to_thread(wait_until, watched.is_whole)
        assert await scenario.judge("a", "b") == [FeedbackStatus.DUPLICATE, FeedbackStatus.RECORDED]


async def test_only_feedback_waits_for_replicas(watched: SentinelStore, url: str) -> None:
    """Predictions and reads go on while feedback waits, and a deleted model is reported immediately."""
    async with opened(url, patience=4.0) as scenario:
        with stopped(watched.servers[1]):
            waiting = asyncio.create_task(scenario.judge("a"))
            while (await scenario.store.read_tail(scenario.key, 0, 10)).round_count == 0:
                assert not waiting.done()
            assert await scenario.store.add_predictions(scenario.key, sample_predictions("c"), WINDOW, None) == [None]
            assert not waiting.done()
        assert await waiting == [FeedbackStatus.RECORDED]
        with pytest.raises(ModelNotFoundError):
            await scenario.store.add_feedback(
                ModelKey("gone", "first"), [Feedback(id_of("a"), True, None)], STRICT, NOW
            )


async def test_missing_replicas_prevent_acknowledgment(url: str) -> None:
    """With one replica, waiting for two fails; without the setting nothing waits."""
    async with opened(url, replicas=2, patience=0.5) as scenario:
        with pytest.raises(StoreUnavailableError, match="to 1 of 2 replicas"):
            await scenario.judge("a")
    async with opened(url, replicas=0) as scenario:
        assert await scenario.judge("a") == [FeedbackStatus.RECORDED]


async def test_the_service_answers_503_until_replicas_have_it(watched: SentinelStore) -> None:
    """The client may repeat the request, and `/readyz` describes the guarantee."""
    async with worker(watched.url, wait_replicas=1, store_timeout_seconds=0.5) as client:
        assert "1 other server has it as well" in (await client.get("/readyz")).json()["durability"]
        assert (await client.post("/models", json=definition("front"))).status_code == 201
        request = {"model": "front", "context": [0.6, 0.8, 0.0]}
        drawn = (await client.post("/predict", json=request)).json()
        feedback = {"prediction_id": drawn["prediction_id"], "correct": True}
        with stopped(watched.servers[1]):
            refused = await client.post("/feedback", json=feedback)
        await asyncio.to_thread(wait_until, watched.is_whole)
        accepted = await client.post("/feedback", json=feedback)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert (accepted.status_code, accepted.json()["status"]) == (200, "duplicate")


@pytest.mark.parametrize(
    ("given", "reason"),
    [({}, "the embedded store has no replicas"), ({"store_url": "redis+cluster://127.0.0.1"}, "URL of a cluster")],
)
def test_waiting_for_replicas_needs_a_store_that_can_have_some(given: dict[str, str], reason: str) -> None:
    """The embedded store has none; a cluster's are not supported. The error says which."""
    with pytest.raises(ValidationError, match=reason):
        Settings(wait_replicas=1, **given)  # type: ignore[arg-type]

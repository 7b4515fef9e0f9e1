"""The laws of confirmed feedback: what was acknowledged is on the replicas too, whatever came of earlier attempts."""

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
from service.store.base import Feedback, FeedbackStatus
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.fleets import SentinelStore, Server, sentinels
from tests.servers import REDIS_SERVER, wait_until
from tests.service.sample_models import definition
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions
from tests.service.workers import worker

_names = (f"forest-{number}" for number in itertools.count())


class Place(NamedTuple):
    """A store that waits for replicas, and a new model in it with open predictions "a" and "b"."""

    store: RedisStore
    key: ModelKey

    async def judge(self, *owns: str) -> list[FeedbackStatus]:
        """Says of each prediction that it was right."""
        results = await self.store.add_feedback(
            self.key, [Feedback(id_of(own), True, None) for own in owns], STRICT, NOW
        )
        return [result.status for result in results]


@asynccontextmanager
async def connected(url: str, replicas: int = 1, patience: float = 1.0) -> AsyncIterator[RedisStore]:
    """Connections of one worker."""
    store = RedisStore(url, patience, replicas=replicas)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened(url: str, replicas: int = 1, patience: float = 1.0) -> AsyncIterator[Place]:
    """A place for one test."""
    async with connected(url, replicas, patience) as store:
        key = ModelKey(next(_names), "first")
        await store.create_model(key, "{}", NOW)
        await store.add_predictions(key, sample_predictions("a", "b"), WINDOW, None)
        yield Place(store, key)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """A server that stands still, as behind a silent network."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelStore]:
    """A primary with a replica, which Sentinels do not replace so soon; of each program."""
    if request.param == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if request.param == "redis" else None
    with sentinels(tmp_path_factory.mktemp("watched"), 60_000, binary=binary) as running:
        yield running


@pytest.fixture(params=["one server", "Sentinels"])
def url(request: pytest.FixtureRequest, watched: SentinelStore) -> str:
    """Both ways to the primary."""
    return watched.url if request.param == "Sentinels" else watched.url_of(watched.servers[0])


async def test_readiness_waits_for_the_replica_too(watched: SentinelStore, url: str) -> None:
    """Where feedback would not be acknowledged for want of a replica, the store is not ready."""
    async with connected(url, patience=1.0) as store:
        await store.check()
        with stopped(watched.servers[1]), pytest.raises(StoreUnavailableError, match="0 of 1 replicas"):
            await store.check()
        await store.check()


async def test_feedback_is_acknowledged_when_the_replica_has_it(watched: SentinelStore, url: str) -> None:
    """The round is in the replica's log by then, also where the script had to be sent first."""
    async with opened(url) as place:
        watched.servers[0].send("SCRIPT", "FLUSH")
        for number, own in enumerate("ab", 1):
            assert await place.judge(own) == [FeedbackStatus.RECORDED]
            assert watched.servers[1].send("HGET", keys.model(place.key.name), "rounds") == str(number)


async def test_feedback_that_the_replica_has_not_is_not_acknowledged(watched: SentinelStore, url: str) -> None:
    """However often it is sent, by whatever worker, while the replica stands still; then it is a duplicate."""
    async with opened(url, patience=0.5) as place:
        with stopped(watched.servers[1]):
            for _ in range(2):
                async with connected(url, patience=0.5) as store:
                    with pytest.raises(StoreUnavailableError, match=r"written, but to 0 of 1 replicas within 0\.25 s"):
                        await Place(store, place.key).judge("a")
        await asyncio.to_thread(wait_until, watched.is_whole)
        assert await place.judge("a", "b") == [FeedbackStatus.DUPLICATE, FeedbackStatus.RECORDED]


async def test_nothing_else_waits_for_replicas(watched: SentinelStore, url: str) -> None:
    """Predictions and reading go on while feedback waits, and a model that is gone is told of at once."""
    async with opened(url, patience=4.0) as place:
        with stopped(watched.servers[1]):
            waiting = asyncio.create_task(place.judge("a"))
            while (await place.store.read_tail(place.key, 0, 10)).round_count == 0:
                assert not waiting.done()
            assert await place.store.add_predictions(place.key, sample_predictions("c"), WINDOW, None) == [None]
            assert not waiting.done()
        assert await waiting == [FeedbackStatus.RECORDED]
        with pytest.raises(ModelNotFoundError):
            await place.store.add_feedback(ModelKey("gone", "first"), [Feedback(id_of("a"), True, None)], STRICT, NOW)


async def test_more_replicas_than_there_are_is_no_acknowledgment(url: str) -> None:
    """With one replica two cannot confirm; without the setting nobody is asked."""
    async with opened(url, replicas=2, patience=0.5) as place:
        with pytest.raises(StoreUnavailableError, match="to 1 of 2 replicas"):
            await place.judge("a")
    async with opened(url, replicas=0) as place:
        assert await place.judge("a") == [FeedbackStatus.RECORDED]


async def test_the_service_answers_503_until_replicas_have_it(watched: SentinelStore) -> None:
    """Such an answer may be repeated, and `/readyz` tells of the promise."""
    async with worker(watched.url, wait_replicas=1, store_timeout_seconds=0.5) as client:
        assert "1 other server has it, too" in (await client.get("/readyz")).json()["durability"]
        assert (await client.post("/models", json=definition("front"))).status_code == 201
        asked = {"model": "front", "context": [0.6, 0.8, 0.0]}
        drawn = (await client.post("/predict", json=asked)).json()
        said = {"prediction_id": drawn["prediction_id"], "correct": True}
        with stopped(watched.servers[1]):
            refused = await client.post("/feedback", json=said)
        await asyncio.to_thread(wait_until, watched.is_whole)
        accepted = await client.post("/feedback", json=said)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert (accepted.status_code, accepted.json()["status"]) == (200, "duplicate")


@pytest.mark.parametrize("given", [{}, {"store_url": "redis+cluster://127.0.0.1"}])
def test_replicas_are_waited_for_where_there_may_be_some(given: dict[str, str]) -> None:
    """The embedded store has none; a cluster's are not supported."""
    with pytest.raises(ValidationError, match="not of a cluster"):
        Settings(wait_replicas=1, **given)  # type: ignore[arg-type]

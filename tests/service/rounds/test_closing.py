"""The laws of workers that close expired predictions: any worker, any model, once."""

import asyncio
import time

import pytest

from service.background.due_models import DueModels, expiry
from service.errors import StoreError, StoreFullError, StoreUnavailableError
from service.rounds.sessions import SessionCache
from service.store import keys
from service.store.records.layout import VERSION
from service.store.redis.redis_store import RedisStore
from service.store.values import Due, LogEntry
from tests.service.api.http_api import Api, body_of
from tests.service.replicas.altering import stored
from tests.service.rounds.clicks import close_expired
from tests.service.rounds.sessions import LARGE, environment
from tests.service.sample_models import UNIFORM
from tests.service.workers import Clock, worker

WINDOW = 60.0
N = 5


async def leave_predictions(store_url: str, name: str, clock: Clock) -> None:
    """Create a model that closes predictions, and N open predictions. End the worker, then let their windows close."""
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        body_of(await api.create(learner=UNIFORM, on_expiry="incorrect", window_seconds=WINDOW), 201)
        for number in range(N):
            body_of(await api.predict(prediction_id=f"p{number}"), 200)
    clock.now += WINDOW + 10.0


def closer(store: RedisStore, clock: Clock) -> tuple[DueModels, SessionCache]:
    """Return the closer of another worker, and its sessions."""
    own = environment(store, clock, store_offset=lambda: clock.now - time.time())
    sessions = SessionCache(own, LARGE)
    return expiry(own, sessions), sessions


async def entries(store: RedisStore, name: str) -> list[LogEntry]:
    return (await store.read_tail((await stored(store, name)).key, 0, 1000)).entries


async def test_a_model_that_no_worker_has_loaded_is_closed(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    await leave_predictions(store_url, name, clock)
    other, sessions = closer(store, clock)
    await other.run()
    assert len(await entries(store, name)) == N
    assert sessions.closing() == []


async def test_workers_share_the_work(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    await leave_predictions(store_url, name, clock)
    await asyncio.gather(*(closer(store, clock)[0].run() for _ in range(4)))
    await close_expired(store, clock)
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        lines = await api.rounds()
        assert body_of(await api.predict(), 200)["rounds_seen"] == N
    assert sorted(line["prediction_id"] for line in lines) == [f"{name}:p{number}" for number in range(N)]
    assert {line["outcome"] for line in lines} == {"expired"}


async def test_a_damaged_model_does_not_stop_the_others(store_url: str, store: RedisStore, name: str) -> None:
    """Its predictions are closed after its repair; a worker looks at it again within two minutes."""
    clock, damaged = Clock(), f"{name}-damaged"
    for each in (damaged, name):
        await leave_predictions(store_url, each, clock)
    await store.command("HSET", keys.model(damaged), "rounds", "nonsense")
    await close_expired(store, clock)
    assert len(await entries(store, name)) == N
    await store.command("HSET", keys.model(damaged), "rounds", "0")
    clock.now += 120.0
    await close_expired(store, clock)
    assert len(await entries(store, damaged)) == N


async def test_predictions_of_a_newer_version_do_not_keep_others_waiting(
    store_url: str, store: RedisStore, name: str
) -> None:
    """After a return to the older version, however many there are."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        body_of(await api.create(learner=UNIFORM, on_expiry="incorrect", window_seconds=WINDOW), 201)
        newer = [f"a{number:03}" for number in range(200)]
        for id_ in [*newer, *(f"p{number}" for number in range(N))]:
            body_of(await api.predict(prediction_id=id_), 200)
        key = (await stored(store, name)).key
        for id_ in newer:
            await store.command("SETRANGE", keys.block(*key, id_), 0, bytes([VERSION + 1]))
    offset = clock.now + WINDOW + 10.0 - time.time()
    own = environment(store, clock, store_offset=lambda: offset)
    await expiry(own, SessionCache(own, LARGE)).run()
    assert len(await entries(store, name)) == N


@pytest.mark.parametrize("error", [StoreUnavailableError, StoreFullError])
async def test_a_store_that_refuses_is_asked_again(
    store_url: str, store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, error: type[StoreError]
) -> None:
    clock = Clock()
    await leave_predictions(store_url, name, clock)
    other, _ = closer(store, clock)

    async def fail(*_: object) -> None:
        raise error("the store refuses")

    with monkeypatch.context() as patched:
        patched.setattr(store, "close_expired", fail)
        await other.run()
    assert await entries(store, name) == []
    clock.now += 5.0  # the lease ends
    await other.run()
    assert len(await entries(store, name)) == N


async def test_a_lost_list_is_restored_by_the_next_use(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    await leave_predictions(store_url, name, clock)
    key = (await stored(store, name)).key
    assert await store.command("TTL", keys.block(*key, "p0")) > 7 * 86_400.0  # survive a long outage
    await store.unwatch(Due.CLOSING, key)
    other, sessions = closer(store, clock)
    await sessions.find(name, "model")
    assert sessions.closing() == [key]
    await other.run()
    assert len(await entries(store, name)) == N

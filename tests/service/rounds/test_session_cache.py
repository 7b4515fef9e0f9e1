"""The laws of a worker's session cache: its memory is bounded, and closing a session loses nothing."""

import asyncio
import gc
import tracemalloc
import weakref
from collections.abc import Callable

import pytest

from service.choice.requests import PredictionRequest
from service.errors import ModelNotFoundError, NewerVersionError, StoreUnavailableError, WagerError
from service.models.model import Model
from service.rounds.sessions import _SESSION_BYTES, ModelSession, SessionCache, _cost
from service.store.redis.redis_store import RedisStore
from tests.servers import wait_until
from tests.service.rounds.sessions import judge, predict, session_cache, settled
from tests.service.sample_models import (
    GAPTRON,
    LABEL_SET,
    UNIFORM,
    bits,
    make_model,
    some_contexts,
    true_state,
)
from tests.service.workers import Clock


async def make_models(store: RedisStore, name: str, n: int) -> Callable[[int], str]:
    """Create n small models; return a function from index to name."""
    for i in range(n):
        await make_model(store, f"{name}-{i}", learner=UNIFORM)
    return lambda i: f"{name}-{i}"


async def crowded(store: RedisStore, name: str) -> tuple[SessionCache, ModelSession, str]:
    """Return a cache for one session, with the session of a model, and the name of another model."""
    named = await make_models(store, name, 1)
    await make_model(store, name, learner=GAPTRON)
    sessions = session_cache(store, max_bytes=1)
    return sessions, await sessions.find(name, "model"), named(0)


async def test_a_session_is_opened_once(store: RedisStore, name: str) -> None:
    with pytest.raises(ModelNotFoundError) as refusal:
        await session_cache(store).find(name, "prediction_id")
    assert refusal.value.field == "prediction_id"
    await make_model(store, name)
    sessions = session_cache(store)
    found = await asyncio.gather(*(sessions.find(name, "model") for _ in range(5)))
    assert {id(session) for session in [*found, await sessions.find(name, "model")]} == {id(found[0])}


async def test_the_least_recently_used_session_is_closed_first(store: RedisStore, name: str) -> None:
    named = await make_models(store, name, 4)
    one = _cost(await session_cache(store).find(named(0), "model"))
    sessions = session_cache(store, max_bytes=3 * one)
    opened = [await sessions.find(named(i), "model") for i in range(3)]
    assert await sessions.find(named(0), "model") is opened[0]  # so 1 is now the least recently used
    await sessions.find(named(3), "model")
    assert await sessions.find(named(0), "model") is opened[0]
    assert await sessions.find(named(2), "model") is opened[2]
    assert await sessions.find(named(1), "model") is not opened[1]


async def test_a_state_that_grows_is_counted_again(store: RedisStore, name: str) -> None:
    """Upkeep counts the present size of each state, and closes idle sessions to stay within the bound."""
    named = await make_models(store, name, 1)
    await make_model(store, name, learner={"algorithm": "fastcb"}, features={"kind": "dense", "size": 1000})
    sessions = session_cache(store, max_bytes=2 * _SESSION_BYTES + 30_000)
    session, small = await sessions.find(name, "model"), await sessions.find(named(0), "model")
    assert await sessions.find(named(0), "model") is small
    request = PredictionRequest([1.0] * 1000, None, include_distribution=False)
    await judge(session, [(await session.predictor.predict(request)).prediction_id])
    await settled(session)
    await sessions.maintain()
    assert session.replica.bytes > 1000 * 8 * 4 * 4
    assert sessions._bytes == sum(map(_cost, sessions._sessions.values()))
    assert await sessions.find(named(0), "model") is not small


@pytest.mark.parametrize(
    ("choice", "n_labels"), [(GAPTRON, 10), (LABEL_SET, 1_000), (UNIFORM, 20_000), (GAPTRON, 20_000)]
)
async def test_a_sessions_cost_is_about_its_memory(
    store: RedisStore, name: str, choice: dict[str, object], n_labels: int
) -> None:
    """The least of several measurements counts: another thread may allocate memory during one of them."""
    await make_model(store, name, learner=choice, labels=[f"label-{i}" for i in range(n_labels)])

    async def opened() -> SessionCache:
        sessions = session_cache(store)
        session = await sessions.find(name, "model")
        await session.replica.catch_up()
        return sessions

    for _ in range(2):  # one-time allocations happen here, outside the measurement
        sessions = await opened()
    held = list[int]()
    for _ in range(3):
        del sessions
        gc.collect()
        tracemalloc.start()
        try:
            sessions = await opened()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert min(held) / 1.5 <= sessions._bytes <= min(held) * 1.5


async def test_a_busy_session_is_kept(store: RedisStore, name: str) -> None:
    named = await make_models(store, name, 3)
    sessions = session_cache(store, max_bytes=_SESSION_BYTES)
    busy = await sessions.find(named(0), "model")
    prediction = asyncio.create_task(
        busy.predictor.predict(PredictionRequest([1.0, 2.0, 3.0], None, include_distribution=False))
    )
    await asyncio.sleep(0)
    await sessions.find(named(1), "model")
    assert await sessions.find(named(0), "model") is busy
    await prediction
    await settled(busy)
    async with busy.replica.lock:
        busy.replica.release()
        assert busy.replica.state is not None  # a state in use is not freed
    await sessions.find(named(2), "model")
    assert await sessions.find(named(0), "model") is not busy


async def test_a_closed_session_loses_nothing(store: RedisStore, name: str) -> None:
    """Its successor folds the same rounds to the same bits; a late use of the session loads its state again."""
    sessions, first, other = await crowded(store, name)
    await judge(first, await predict(first, 20))
    await predict(first, 1)
    await settled(first)
    before, freed = bits(first.replica.state), weakref.ref(first.replica.state.direction)
    await sessions.find(other, "model")
    await asyncio.to_thread(wait_until, lambda: freed() is None)  # a thread may still end its computation
    second = await sessions.find(name, "model")
    assert second is not first
    await predict(second, 1)
    assert bits(second.replica.state) == before == bits(await true_state(store, name))
    await judge(first, await predict(first, 5))
    await first.replica.catch_up()
    assert bits(first.replica.state) == bits(await true_state(store, name))


async def test_a_closed_session_is_freed_without_a_garbage_collection(store: RedisStore, name: str) -> None:
    """A used session has no reference cycles, so that ten thousand models need no more memory than the limit."""
    sessions, session, other = await crowded(store, name)
    await judge(session, await predict(session, 5))
    await settled(session)
    freed = weakref.ref(session)
    del session
    gc.disable()
    try:
        await sessions.find(other, "model")
        await asyncio.to_thread(wait_until, lambda: freed() is None)
    finally:
        gc.enable()


async def test_a_dropped_session_answers_its_requests_and_frees_its_bytes_once(store: RedisStore, name: str) -> None:
    await make_model(store, name, learner=GAPTRON)
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    (context,) = some_contexts(1, 1)
    waiting = [
        session.predictor.predict(PredictionRequest(context, None, include_distribution=False)) for _ in range(3)
    ]
    sessions.drop(session)
    sessions.drop(session)
    async with asyncio.timeout(60.0):
        answers = await asyncio.gather(*waiting)
    assert [answer.rounds_seen for answer in answers] == [0, 0, 0]
    successor = await sessions.find(name, "model")
    sessions.drop(session)
    assert await sessions.find(name, "model") is successor
    assert sessions._bytes == _cost(successor)


async def test_the_session_of_a_deleted_model_is_dropped(store: RedisStore, name: str) -> None:
    """Upkeep drops a session whose model was deleted on another worker, and frees its memory."""
    await make_model(store, name)
    sessions = session_cache(store)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 1))
    await store.delete_model(name)
    await sessions.maintain()
    with pytest.raises(ModelNotFoundError):
        await sessions.find(name, "model")
    assert sessions._bytes == 0
    del session
    gc.collect()
    assert [each for each in gc.get_objects() if type(each) is Model and each.name == name] == []


async def test_a_deleted_model_has_no_traffic(store: RedisStore, name: str) -> None:
    await make_model(store, name)
    sessions = session_cache(store)
    await predict(await sessions.find(name, "model"), 1)
    await store.delete_model(name)
    sessions.forget(name)
    await sessions.maintain()
    assert name not in await store.read_traffic()


async def test_upkeep_logs_a_trouble_once_a_minute(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Upkeep runs each second, and what a newer version has written stays."""
    await make_model(store, name)
    clock = Clock()
    sessions = session_cache(store, clock)
    session = await sessions.find(name, "model")
    errors: list[WagerError | None] = [
        *[NewerVersionError("newer"), None] * 30,
        *[StoreUnavailableError("gone")] * 2,
        *[NewerVersionError("newer")] * 62,
    ]

    async def run(*, is_last: bool) -> None:
        assert not is_last
        if (error := errors.pop(0)) is not None:
            raise error

    monkeypatch.setattr(session.upkeep, "run", run)
    while errors:
        await sessions.maintain()
        clock.now += 1.0
    assert [record.getMessage() for record in caplog.records] == [
        f"upkeep of model {name}: {detail}" for detail in ("newer", "gone", "newer", "newer")
    ]

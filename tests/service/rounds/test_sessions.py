"""The laws of a worker's sessions: rounds are folded in the background, memory has a bound, the gone are forgotten."""

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from learners.codec import encode_state
from service.app import end
from service.environment import Environment
from service.errors import ModelNotFoundError, StoreUnavailableError
from service.replicas.replica import Replica
from service.replicas.snapshot_policy import SNAPSHOT_AGE, SNAPSHOT_EVERY, SNAPSHOT_PAUSE
from service.replicas.statistics import StatisticsAccumulator
from service.rounds.session import FOLD_EVERY, ModelSession, PredictionRequest
from service.rounds.session_cache import _SESSION_BYTES, SessionCache, _cost
from service.store import keys
from service.store.base import Feedback, Snapshot
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.sample_models import (
    COMPUTE,
    GAPTRON,
    LABEL_SET,
    SOBA_DIAGONAL,
    UNIFORM,
    CutShort,
    bits,
    make_model,
    play,
    sequential_fold,
    some_contexts,
    taught_by,
    true_state,
    whole_log,
)
from tests.service.workers import Clock

LARGE = 1 << 30


def environment(store: RedisStore, clock: Clock | None = None) -> Environment:
    """A worker's surroundings, in the hands of the test."""
    numbers = itertools.count()
    return Environment(store, COMPUTE, clock or Clock(), np.random.default_rng(1), lambda: f"d{next(numbers)}")


async def predict(session: ModelSession, n: int) -> list[str]:
    """Predictions at a session; their ids."""
    requests = [PredictionRequest(context, None, include_distribution=False) for context in some_contexts(1, n)]
    answers = await asyncio.gather(*(session.predict(ask) for ask in requests))
    return [answer.prediction_id.partition(":")[2] for answer in answers]


async def judge(session: ModelSession, ids: list[str]) -> None:
    """Feedback at a session: every other prediction was right."""
    await asyncio.gather(*(session.give_feedback(Feedback(own, i % 2 == 0, None)) for i, own in enumerate(ids)))


async def settled(session: ModelSession) -> None:
    """Waits until nothing is under way."""
    async with asyncio.timeout(60.0):  # a kernel may be compiled meanwhile, in a thread
        while not session.idle:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0)


# --- what a round keeps of its draw


async def test_a_round_keeps_what_its_draw_left(store: RedisStore, name: str) -> None:
    """The label is where the uniform number falls, and the residual uniform says where in its share."""
    model = await make_model(store, name, learner=UNIFORM)
    session = await SessionCache(environment(store), LARGE).find(name, "model")
    await judge(session, await predict(session, 8))
    rounds = model.format.decode_rounds([entry.payload for entry in await whole_log(store, model.key)])
    numbers = 4.0 * np.random.default_rng(1).random(8)
    assert (rounds.labels == numbers.astype(int)).all()
    np.testing.assert_allclose(rounds.residual_uniforms, numbers % 1.0, atol=1e-12)


# --- rounds that come, or go, while a prediction is made


class Forgetful(RedisStore):
    """A store that loses the latest rounds just before predictions are stored, so many times."""

    times = 0

    async def add_predictions(self, key: ModelKey, *args: Any) -> Any:
        """See `Store.add_predictions`."""
        if self.times:
            self.times -= 1
            rounds = (await self.read_tail(key, 0, 1)).round_count
            await self.command("XDEL", keys.log(*key), f"{rounds}-0")
            await self.command("HINCRBY", keys.model(key.name), "rounds", -1)
        return await super().add_predictions(key, *args)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_prediction_has_seen_rounds_that_are_there(store_url: str, name: str, times: int) -> None:
    """A log that shrinks again and again while it is read is no ground to answer on; one that has shrunk is."""
    store = Forgetful(store_url, timeout=5.0)
    model = await make_model(store, name)
    await play(store, model, 6)
    session = await SessionCache(environment(store), LARGE).find(name, "model")
    await predict(session, 1)
    store.times = times
    ask = PredictionRequest(some_contexts(1, 1)[0], None, include_distribution=False)
    if times == 3:
        with pytest.raises(StoreUnavailableError, match="lost rounds"):
            await session.predict(ask)
    else:
        assert (await session.predict(ask)).rounds_seen == 6 - times
    await settled(session)
    await store.close()


# --- upkeep


async def test_a_stretch_of_feedback_is_folded_in_the_background(store: RedisStore, name: str) -> None:
    """After FOLD_EVERY recorded rounds the session has folded them, though nobody asks for a prediction."""
    await make_model(store, name)
    session = await SessionCache(environment(store), LARGE).find(name, "model")
    ids = await predict(session, FOLD_EVERY)
    await judge(session, ids[:-1])
    await settled(session)
    assert session.replica.round_count == 0
    await judge(session, ids[-1:])
    await settled(session)
    assert session.replica.round_count == FOLD_EVERY
    assert bits(session.replica.state) == bits(await true_state(store, name))


async def test_what_comes_one_by_one_is_folded_in_short_stretches(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No turn of upkeep holds up others for more than FOLD_EVERY rounds and what came while it was reading."""
    stretches: list[int] = []
    take = StatisticsAccumulator.take

    def noted(statistics: StatisticsAccumulator, records: Sequence[bytes], n: int) -> None:
        stretches.append(n)
        take(statistics, records, n)

    monkeypatch.setattr(StatisticsAccumulator, "take", noted)
    await make_model(store, name)
    session = await SessionCache(environment(store), LARGE).find(name, "model")
    for id_ in await predict(session, 6 * FOLD_EVERY):
        await judge(session, [id_])
    await settled(session)
    assert sum(stretches) == session.replica.round_count > 5 * FOLD_EVERY
    assert max(stretches) < 1.5 * FOLD_EVERY


async def test_upkeep_and_predictions_take_turns(store: RedisStore, name: str) -> None:
    """Upkeep that meets predictions at the same moment folds no round twice, and each sees whole states."""
    await make_model(store, name)
    sessions = SessionCache(environment(store), LARGE)
    session = await sessions.find(name, "model")
    for round_ in range(1, 6):
        await judge(session, await predict(session, 3))
        await asyncio.gather(sessions.maintain(), predict(session, 2), sessions.maintain(), predict(session, 1))
        assert session.replica.round_count == 3 * round_
        assert bits(session.replica.state) == bits(await true_state(store, name))


async def test_upkeep_folds_even_a_single_round(store: RedisStore, name: str) -> None:
    """The regular upkeep folds whatever this worker has recorded."""
    await make_model(store, name)
    sessions = SessionCache(environment(store), LARGE)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 1))
    await sessions.maintain()
    assert session.replica.round_count == 1


async def test_a_snapshot_is_written_after_so_many_rounds(store: RedisStore, name: str) -> None:
    """SNAPSHOT_EVERY rounds bring a snapshot in the background once SNAPSHOT_PAUSE seconds have passed."""
    model, clock = await make_model(store, name), Clock()
    session = await SessionCache(environment(store, clock), LARGE).find(name, "model")
    await play(store, model, SNAPSHOT_EVERY - 1)
    clock.now += SNAPSHOT_PAUSE
    ids = await predict(session, 1)
    await settled(session)
    assert await store.load_snapshot(model.key) is None
    await judge(session, ids)
    clock.now -= 0.001
    await predict(session, 1)
    await settled(session)
    assert await store.load_snapshot(model.key) is None
    clock.now += 0.001
    await predict(session, 1)
    await settled(session)
    state = sequential_fold(model, await whole_log(store, model.key))
    snapshot = await store.load_snapshot(model.key)
    assert snapshot is not None
    assert snapshot[:2] == (SNAPSHOT_EVERY, encode_state(model.learner, state))


async def test_a_snapshot_is_written_when_the_last_is_old(store: RedisStore, name: str) -> None:
    """After SNAPSHOT_AGE seconds the upkeep writes a snapshot of whatever has come, and not before."""
    clock = Clock()
    model = await make_model(store, name)
    sessions = SessionCache(environment(store, clock), LARGE)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 3))
    clock.now += SNAPSHOT_AGE - 1.0
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is None
    clock.now += 2.0
    await sessions.maintain()
    snapshot = await store.load_snapshot(model.key)
    assert snapshot is not None
    assert snapshot.round_count == 3


async def test_no_snapshot_is_written_without_news(store: RedisStore, name: str) -> None:
    """Time alone is no reason: a model that nobody teaches gets no snapshot."""
    clock = Clock()
    model = await make_model(store, name)
    sessions = SessionCache(environment(store, clock), LARGE)
    await predict(await sessions.find(name, "model"), 2)
    clock.now += 10 * SNAPSHOT_AGE
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is None


async def test_trouble_with_one_model_does_not_stop_the_upkeep_of_others(store: RedisStore, name: str) -> None:
    """A model whose snapshot cannot be read leaves the others their snapshots."""
    clock = Clock()
    sessions = SessionCache(environment(store, clock), LARGE)
    for each in (f"{name}-broken", f"{name}-whole"):
        model = await make_model(store, each)
        session = await sessions.find(each, "model")
        await judge(session, await predict(session, 2))
    broken = await sessions.find(f"{name}-broken", "model")
    broken.replica.state = None
    await store.save_snapshot(broken.model.key, Snapshot(2, b"nonsense"), 100)
    await store.command("XTRIM", keys.log(*broken.model.key), "MINID", "2-0")
    await sessions.find(f"{name}-whole", "model")
    clock.now += SNAPSHOT_AGE + 1.0
    await sessions.maintain()
    assert await store.load_snapshot(model.key) is not None


async def test_an_unexpected_error_does_not_stop_the_upkeep(store: RedisStore, name: str) -> None:
    """Whatever goes wrong with one model, the upkeep does the others, and is there the next time."""
    sessions = SessionCache(environment(store), LARGE)
    found = []
    for each in (f"{name}-broken", f"{name}-whole"):
        await make_model(store, each)
        found.append(await sessions.find(each, "model"))
        await judge(found[-1], await predict(found[-1], 2))
    broken, whole = found
    broken.replica = Replica(taught_by(broken.model, CutShort(broken.model.learner)), store, COMPUTE)
    await sessions.maintain()
    assert whole.replica.round_count == 2


# --- the cache


async def test_upkeep_ends_though_it_swallows_a_cancellation() -> None:
    """A worker stops even where its upkeep goes on after it was cancelled once, as in Python 3.11 it may."""
    swallowed = asyncio.Event()

    async def upkeep() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(upkeep())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), timeout=60.0)
    assert task.cancelled()
    assert swallowed.is_set()


async def test_a_desk_is_opened_once(store: RedisStore, name: str) -> None:
    """Whoever asks for a model gets the same session, also those who ask at the same time."""
    await make_model(store, name)
    sessions = SessionCache(environment(store), LARGE)
    found = await asyncio.gather(*(sessions.find(name, "model") for _ in range(5)))
    assert {id(session) for session in [*found, await sessions.find(name, "model")]} == {id(found[0])}


async def test_an_unknown_model_blames_the_field(store: RedisStore, name: str) -> None:
    """The refusal names the field of the request that the name came from."""
    with pytest.raises(ModelNotFoundError) as refusal:
        await SessionCache(environment(store), LARGE).find(name, "prediction_id")
    assert refusal.value.field == "prediction_id"


async def room_for(store: RedisStore, name: str, n: int) -> Callable[[int], str]:
    """Makes n models; the name of each."""
    for i in range(n):
        await make_model(store, f"{name}-{i}", learner=UNIFORM)
    return lambda i: f"{name}-{i}"


async def test_the_longest_unused_desk_makes_room(store: RedisStore, name: str) -> None:
    """Over the bound in bytes, those not used for the longest are closed, one by one, and opened again when asked."""
    named = await room_for(store, name, 4)
    one = _cost(await SessionCache(environment(store), LARGE).find(named(0), "model"))
    sessions = SessionCache(environment(store), 3 * one)
    opened = [await sessions.find(named(i), "model") for i in range(3)]
    assert await sessions.find(named(0), "model") is opened[0]  # so 1 is now the longest unused
    await sessions.find(named(3), "model")
    assert await sessions.find(named(0), "model") is opened[0]
    assert await sessions.find(named(2), "model") is opened[2]
    assert await sessions.find(named(1), "model") is not opened[1]


@pytest.mark.parametrize("choice", [SOBA_DIAGONAL, GAPTRON], ids=lambda choice: str(choice["algorithm"]))
async def test_a_desk_counts_for_its_state(store: RedisStore, name: str, choice: dict[str, object]) -> None:
    """A large state takes the room of many small ones."""
    named = await room_for(store, name, 2)
    large = await make_model(store, name, learner=choice, features={"kind": "dense", "size": 1000})
    sessions = SessionCache(environment(store), 2 * _SESSION_BYTES + 8_000)
    small = [await sessions.find(named(i), "model") for i in range(2)]
    session = await sessions.find(large.name, "model")
    assert session.replica.bytes > 8_000 * 4
    assert await sessions.find(large.name, "model") is session  # the newest stays, though it is too large alone
    assert await sessions.find(named(0), "model") is not small[0]


@pytest.mark.parametrize("choice", [GAPTRON, UNIFORM, LABEL_SET], ids=lambda choice: str(choice["algorithm"]))
@pytest.mark.parametrize("n_labels", [10, 1_000, 100_000])
async def test_a_desk_is_counted_as_what_it_holds(
    store: RedisStore, name: str, choice: dict[str, object], n_labels: int
) -> None:
    """What the cache counts for a session is the memory that opening it takes, within a factor of 1.5."""
    await make_model(store, name, learner=choice, labels=[f"label-{i}" for i in range(n_labels)])

    async def opened(sessions: SessionCache) -> None:
        session = await sessions.find(name, "model")
        async with session.replica.lock:
            await session.replica.catch_up()

    for _ in range(2):  # whatever is loaded once is loaded now
        await opened(SessionCache(environment(store), LARGE))
    sessions = SessionCache(environment(store), LARGE)
    gc.collect()
    tracemalloc.start()
    try:
        await opened(sessions)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / 1.5 <= sessions._bytes <= held * 1.5


async def test_a_busy_desk_is_kept(store: RedisStore, name: str) -> None:
    """A session where something is under way is not closed for room; it is when it is idle."""
    named = await room_for(store, name, 3)
    sessions = SessionCache(environment(store), _SESSION_BYTES)
    busy = await sessions.find(named(0), "model")
    prediction = busy.predict(PredictionRequest([1.0, 2.0, 3.0], None, include_distribution=False))
    await sessions.find(named(1), "model")
    assert await sessions.find(named(0), "model") is busy
    await prediction
    await settled(busy)
    await sessions.find(named(2), "model")
    assert await sessions.find(named(0), "model") is not busy


async def test_a_closed_desk_loses_nothing(store: RedisStore, name: str) -> None:
    """What a session had folded when it was closed, its successor folds again, to the bit."""
    named = await room_for(store, name, 1)
    await make_model(store, name, learner=GAPTRON)
    sessions = SessionCache(environment(store), 1)
    first = await sessions.find(name, "model")
    await judge(first, await predict(first, 20))
    await predict(first, 1)
    await sessions.find(named(0), "model")
    second = await sessions.find(name, "model")
    assert second is not first
    await predict(second, 1)
    assert bits(second.replica.state) == bits(first.replica.state) == bits(await true_state(store, name))


async def test_the_desk_of_a_gone_model_is_dropped(store: RedisStore, name: str) -> None:
    """Upkeep forgets a session whose model was deleted on another worker, and gives its bytes back."""
    await make_model(store, name)
    sessions = SessionCache(environment(store), LARGE)
    session = await sessions.find(name, "model")
    await judge(session, await predict(session, 1))
    await store.delete_model(name)
    await sessions.maintain()
    with pytest.raises(ModelNotFoundError):
        await sessions.find(name, "model")
    assert sessions._bytes == 0


async def test_dropping_twice_counts_once(store: RedisStore, name: str) -> None:
    """A session that is dropped again, or after its successor was opened, takes nothing with it."""
    await make_model(store, name, learner=UNIFORM)
    sessions = SessionCache(environment(store), LARGE)
    session = await sessions.find(name, "model")
    sessions.drop(session)
    sessions.drop(session)
    successor = await sessions.find(name, "model")
    sessions.drop(session)
    assert await sessions.find(name, "model") is successor
    assert sessions._bytes == _cost(successor)

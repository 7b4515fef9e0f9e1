"""The laws of a replica: however it reaches a round, its state is the sequential fold, to the bit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import pytest
import redis

from learners.codec import encode_state
from service.compute import Compute
from service.errors import ModelNotFoundError, StoreCorruptError
from service.models.model import Model
from service.replicas.replica import Replica
from service.store import keys
from service.store.capabilities import Store
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.servers import raw, wait_until
from tests.service.damaging import KINDS, sound_fold
from tests.service.replicas.altering import fresh
from tests.service.sample_models import (
    COMPUTE,
    GAPTRON,
    LABEL_SET,
    LEARNER_CHOICES,
    RANKING,
    CutShort,
    bits,
    make_model,
    play,
    sequential_fold,
    taught_by,
    whole_log,
)
from tests.service.workers import START

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


async def caught_up(replica: Replica) -> list[bytes]:
    await replica.catch_up()
    return bits(replica.state)


async def truth(store: Store, model: Model) -> list[bytes]:
    """Return the sequential fold of a log that was never trimmed."""
    return bits(sequential_fold(model, await whole_log(store, model.key)))


def costly(model: Model) -> tuple[Model, CutShort]:
    """Return the model with a learner whose folds run in a thread."""
    learner = CutShort(model.learner, fold_cost=10**9)
    learner.broken = False
    return taught_by(model, learner), learner


@pytest.mark.parametrize("choice", [*LEARNER_CHOICES, LABEL_SET, RANKING], ids=lambda choice: str(choice["algorithm"]))
async def test_a_replica_catches_up_from_nothing(store: RedisStore, name: str, choice: dict[str, Any]) -> None:
    """Over several pages of the log, in the event loop and in a thread."""
    model = await make_model(store, name, learner=choice)
    await play(store, model, 270)
    expected = await truth(store, model)
    for each in (model, costly(model)[0]):
        replica = Replica(each, store, COMPUTE)
        replica._limit = 100
        assert await caught_up(replica) == expected
        assert replica.round_count == 270


async def test_a_replica_follows_the_log(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, COMPUTE)
    for seed, n in enumerate((1, 3, 40, 1, 2)):
        await play(store, model, n, seed)
        assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 47
    assert await caught_up(replica) == await truth(store, model)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 2, 5, None])
async def test_a_log_folds_to_the_same_bits_however_it_is_read(
    store: RedisStore, name: str, kind: str, limit: int | None
) -> None:
    model, rounds = await make_model(store, name, **KINDS[kind]), [4, 3, 2, 3, 5, 1, 1]
    for seed, n in enumerate(rounds):
        await play(store, model, n, seed, blocks=min(n, 2))
    replica = Replica(model, store, COMPUTE)
    replica._limit = limit or replica._limit
    assert await caught_up(replica) == sound_fold(model, await whole_log(store, model.key), set())
    assert replica.round_count == replica.statistics.counts().rounds == sum(rounds)


class Yielding(Compute):
    """Runs every other ready task before each computation."""

    async def run_in_thread_if_costly(
        self, cost: int, owner: str, function: Callable[[*_Args], _T], *args: *_Args
    ) -> _T:
        await asyncio.sleep(0)
        return await super().run_in_thread_if_costly(cost, owner, function, *args)


async def test_concurrent_catch_ups_fold_each_round_once(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, Yielding(2))
    for seed in range(3):
        await play(store, model, 20, seed)
        states = await asyncio.gather(*(caught_up(replica) for _ in range(4)))
        assert list(states) == [await truth(store, model)] * 4
        assert replica.statistics.counts().rounds == replica.round_count == 20 * (seed + 1)


async def test_a_replica_starts_from_a_snapshot(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, learner=GAPTRON)
    await Replica(model, store, COMPUTE).snapshot()  # has loaded nothing
    await (await fresh(store, model)).snapshot()  # has no rounds
    assert await store.load_snapshot(model.key) is None
    await play(store, model, 30)
    writer = await fresh(store, model)
    await writer.snapshot()
    assert writer.snapshot_rounds == 30
    state = encode_state(model.learner, sequential_fold(model, await whole_log(store, model.key)))
    counts = writer.statistics.counts().encode()
    assert await store.load_snapshot(model.key) == Snapshot(30, state, statistics=counts, digest=model.digest)
    await play(store, model, 12, seed=2)
    reader = Replica(model, store, COMPUTE)
    assert await caught_up(reader) == await truth(store, model)
    assert (reader.snapshot_rounds, reader.round_count) == (30, 42)


async def test_a_replica_that_lags_a_trimmed_log_loads_the_snapshot(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, learner=GAPTRON, retain_rounds=0)
    slow, quick = Replica(model, store, COMPUTE), Replica(model, store, COMPUTE)
    await play(store, model, 10)
    await caught_up(slow)
    await play(store, model, 300, seed=2)
    expected = await truth(store, model)
    await caught_up(quick)
    await quick.snapshot()
    assert (await whole_log(store, model.key))[0].last_round > 11
    assert await caught_up(slow) == await caught_up(Replica(model, store, COMPUTE)) == expected
    assert slow.round_count == 310


async def test_a_log_that_lacks_rounds_is_corrupt(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    await play(store, model, 5)
    await store.command("XTRIM", keys.log(*model.key), "MINID", "3-0")
    with pytest.raises(StoreCorruptError, match="lacks round 1"):
        await fresh(store, model)


async def test_a_log_with_a_hole_is_corrupt(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    await play(store, model, 5)
    await store.command("XDEL", keys.log(*model.key), "3-0")
    with pytest.raises(StoreCorruptError):
        await fresh(store, model)


async def learn_and_lose(client: redis.Redis, store: RedisStore, replica: Replica, n: int) -> None:
    """Let a replica learn n rounds that the store then loses."""
    model = replica.model
    before = {key: client.dump(key) for key in (keys.model(model.name), keys.log(*model.key))}
    await play(store, model, n, seed=2)
    await caught_up(replica)
    for key, value in before.items():
        assert isinstance(value, bytes)
        client.restore(key, 0, value, replace=True)


@pytest.mark.parametrize("snapshot", [False, True], ids=["no-snapshot", "snapshot"])
@pytest.mark.parametrize("others", [0, 1, 3, 6])
@pytest.mark.parametrize("blocks", [None, 1])
async def test_a_log_that_lost_rounds_and_continued_is_followed(
    store: RedisStore, store_url: str, name: str, others: int, snapshot: bool, blocks: int | None
) -> None:
    """After a fail-over that lost two rounds, a worker drops them, even if new rounds reuse their numbers.

    The new entries may have one round each, like the lost ones, or be one entry with another last round.
    """
    model = await make_model(store, name)
    replica = Replica(model, store, COMPUTE)
    await play(store, model, 4)
    await caught_up(replica)
    if snapshot:
        await replica.snapshot()
    with raw(store_url) as client:
        await learn_and_lose(client, store, replica, 2)
    await replica.snapshot()  # has the lost rounds: must not be kept
    if others:
        await play(store, model, others, seed=3, now=START + (0.0 if blocks else 9.0), blocks=blocks)
    assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 4 + others


@pytest.mark.parametrize("first", [5, 6, 7, 8])
async def test_a_log_that_lost_rounds_and_was_trimmed_is_followed(
    store: RedisStore, store_url: str, name: str, first: int
) -> None:
    """The same if retention has trimmed the new rounds up to the `first` one, perhaps those with the lost numbers."""
    model = await make_model(store, name)
    replica, other = Replica(model, store, COMPUTE), Replica(model, store, COMPUTE)
    await play(store, model, 4)
    with raw(store_url) as client:
        await learn_and_lose(client, store, replica, 2)
        await play(store, model, 4, seed=3, now=START + 9.0)
        expected = await caught_up(other)
        await other.snapshot()
        client.xtrim(keys.log(*model.key), minid=f"{first}-0", approximate=False)
    assert replica.round_count == 6
    assert await caught_up(replica) == expected


async def test_a_log_that_lost_rounds_twice_is_followed(store: RedisStore, store_url: str, name: str) -> None:
    """The first loss leaves a snapshot that ends with the log, so a worker folds nothing after it."""
    model = await make_model(store, name)
    replica, other = Replica(model, store, COMPUTE), Replica(model, store, COMPUTE)
    named = keys.model(name), keys.log(*model.key), keys.snapshot(*model.key)
    with raw(store_url) as client:

        def restore(dumped: Sequence[Any]) -> None:
            client.delete(*named)
            for key, value in zip(named, dumped, strict=True):
                if value is not None:
                    client.restore(key, 0, value)

        await play(store, model, 4)
        after_four = [client.dump(key) for key in named]
        await play(store, model, 2, seed=2)
        await caught_up(other)
        await other.snapshot()
        after_six = [client.dump(key) for key in named]
        await play(store, model, 2, seed=3, now=START + 9.0)
        await caught_up(replica)
        restore(after_six)
        await caught_up(replica)
        restore(after_four)
        await play(store, model, 4, seed=4, now=START + 18.0)
    assert await caught_up(replica) == await caught_up(Replica(model, store, COMPUTE))


async def test_a_failed_fold_leaves_no_partial_state(store: RedisStore, name: str) -> None:
    whole = await make_model(store, name, learner=GAPTRON)
    learner = CutShort(whole.learner)
    replica = Replica(taught_by(whole, learner), store, COMPUTE)
    await play(store, whole, 20)
    with pytest.raises(FloatingPointError):
        await caught_up(replica)
    await replica.snapshot()
    assert await store.load_snapshot(whole.key) is None
    learner.broken = False
    assert await caught_up(replica) == await truth(store, whole)


async def test_a_cancelled_fold_leaves_no_partial_state(store: RedisStore, name: str) -> None:
    """The cancelled fold may go on in its thread, but changes no state in use."""
    whole = await make_model(store, name, learner=GAPTRON)
    model, learner = costly(whole)
    compute = Compute(4)  # two folds per model: the cancelled one that keeps running, and the next
    replica = Replica(model, store, compute)
    await play(store, whole, 20)
    await caught_up(replica)
    await play(store, whole, 20, seed=2)
    learner.broken = True
    catching_up = asyncio.create_task(caught_up(replica))
    await asyncio.to_thread(learner.begun.wait, 10.0)
    catching_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await catching_up
    learner.broken = False
    expected = await truth(store, whole)
    assert await caught_up(replica) == expected
    assert compute.busy
    learner.go_on.set()
    await asyncio.to_thread(wait_until, lambda: not compute.busy)
    assert await caught_up(replica) == expected


async def test_a_replica_of_a_deleted_model_is_refused(store: RedisStore, name: str) -> None:
    replica = await fresh(store, await make_model(store, name))
    await store.delete_model(name)
    await play(store, await make_model(store, name, "second"), 5)
    with pytest.raises(ModelNotFoundError):
        await caught_up(replica)

"""The laws of a replica: however it reaches a round, its state is the sequential fold, to the bit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from learners.codec import encode_state
from service.compute import Compute
from service.errors import ModelNotFoundError, StoreCorruptError
from service.models.model import Model
from service.replicas.replica import Replica
from service.replicas.tails import TAIL_LIMIT
from service.store import keys
from service.store.base import Snapshot, Store
from service.store.redis.redis_store import RedisStore
from tests.servers import raw, wait_until
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


async def caught_up(replica: Replica) -> list[bytes]:
    """Return the replica's state after it has caught up."""
    await replica.catch_up()
    return bits(replica.state)


async def truth(store: Store, model: Model) -> list[bytes]:
    """Return the sequential fold of a log that was never trimmed."""
    return bits(sequential_fold(model, await whole_log(store, model.key)))


@pytest.mark.parametrize("choice", [*LEARNER_CHOICES, LABEL_SET, RANKING], ids=lambda choice: str(choice["algorithm"]))
async def test_a_replica_catches_up_from_nothing(store: RedisStore, name: str, choice: dict[str, Any]) -> None:
    """From the initial state, over several pages of the log, the state is the sequential fold."""
    model = await make_model(store, name, learner=choice)
    await play(store, model, TAIL_LIMIT * 2 + 70)
    replica = Replica(model, store, COMPUTE)
    assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == TAIL_LIMIT * 2 + 70


async def test_a_replica_follows_the_log(store: RedisStore, name: str) -> None:
    """Each catch-up folds the new rounds, and no round twice."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, COMPUTE)
    for seed, n in enumerate((1, 3, 40, 1, 2)):
        await play(store, model, n, seed)
        assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 47
    assert await caught_up(replica) == await truth(store, model)


class Yielding(Compute):
    """Runs every other ready task before each computation."""

    async def run_in_thread_if_costly(self, cost: int, owner: str, function: Callable[..., _T], *args: Any) -> _T:
        """See `Compute.run_in_thread_if_costly`."""
        await asyncio.sleep(0)
        return await super().run_in_thread_if_costly(cost, owner, function, *args)


async def test_concurrent_catch_ups_fold_each_round_once(store: RedisStore, name: str) -> None:
    """A concurrent caller waits for its turn and finds nothing left to fold."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, Yielding(2))
    for seed in range(3):
        await play(store, model, 20, seed)
        await asyncio.gather(*(replica.catch_up() for _ in range(4)))
        assert bits(replica.state) == await truth(store, model)
        assert replica.statistics.counts().rounds == replica.round_count == 20 * (seed + 1)


async def test_a_replica_starts_from_a_snapshot(store: RedisStore, name: str) -> None:
    """The snapshot and the rounds after it give the state of the whole log."""
    model = await make_model(store, name, learner=GAPTRON)
    await play(store, model, 30)
    writer = Replica(model, store, COMPUTE)
    await caught_up(writer)
    await writer.snapshot()
    assert writer.snapshot_rounds == 30
    await play(store, model, 12, seed=2)
    reader = Replica(model, store, COMPUTE)
    assert await caught_up(reader) == await truth(store, model)
    assert (reader.snapshot_rounds, reader.round_count) == (30, 42)


async def test_a_replica_that_lags_a_trimmed_log_loads_the_snapshot(store: RedisStore, name: str) -> None:
    """If the rounds it needs are gone, a replica continues from the snapshot with the same state."""
    model = await make_model(store, name, learner=GAPTRON, retain_rounds=0)
    slow, quick = Replica(model, store, COMPUTE), Replica(model, store, COMPUTE)
    await play(store, model, 10)
    await caught_up(slow)
    await play(store, model, 1000, seed=2)
    expected = await truth(store, model)
    await caught_up(quick)
    await quick.snapshot()
    assert (await whole_log(store, model.key))[0].last_round > 11
    assert await caught_up(slow) == await caught_up(Replica(model, store, COMPUTE)) == expected
    assert slow.round_count == 1010


async def test_a_snapshot_holds_the_sequential_fold(store: RedisStore, name: str) -> None:
    """The stored bytes are the encoded sequential fold."""
    model = await make_model(store, name)
    await play(store, model, 25)
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await replica.snapshot()
    state = sequential_fold(model, await whole_log(store, model.key))
    statistics = replica.statistics.counts().encode()
    assert await store.load_snapshot(model.key) == Snapshot(
        25, encode_state(model.learner, state), statistics=statistics, digest=model.digest
    )


async def test_a_replica_without_new_rounds_writes_no_snapshot(store: RedisStore, name: str) -> None:
    """A replica that has loaded nothing, or has no more rounds than the stored snapshot, does not write."""
    model = await make_model(store, name)
    await Replica(model, store, COMPUTE).snapshot()
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await replica.snapshot()
    assert await store.load_snapshot(model.key) is None


async def test_a_log_that_lacks_rounds_is_corrupt(store: RedisStore, store_url: str, name: str) -> None:
    """If rounds are gone and no snapshot has seen them, catching up is an error."""
    model = await make_model(store, name)
    await play(store, model, 5)
    with raw(store_url) as client:
        client.xtrim(keys.log(*model.key), minid="3-0", approximate=False)
    with pytest.raises(StoreCorruptError, match="lacks round 1"):
        await caught_up(Replica(model, store, COMPUTE))


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda state: state[:-1],
        lambda state: b"\xff" * len(state),
        lambda state: state.replace(b"soba-diagonal", b"soba-diagonel"),
        lambda state: state[:-8] + b"\0\0\0\0\0\0\xf8\x7f",  # a NaN
    ],
    ids=["empty", "truncated", "noise", "another-learner", "not-a-number"],
)
async def test_a_snapshot_that_cannot_be_read_is_corrupt(
    store: RedisStore, store_url: str, name: str, damage: Any
) -> None:
    """A damaged snapshot is refused if the log has lost the rounds before it."""
    model = await make_model(store, name)
    await play(store, model, 3)
    state = damage(bytes(encode_state(model.learner, model.learner.init())))
    await store.save_snapshot(model.key, Snapshot(2, state, digest=model.digest), 100)
    with raw(store_url) as client:
        client.xtrim(keys.log(*model.key), minid="2-0", approximate=False)
    replica = Replica(model, store, COMPUTE)
    with pytest.raises(StoreCorruptError, match="cannot be read"):
        await caught_up(replica)
    assert replica.state is None


async def test_a_log_with_a_hole_is_corrupt(store: RedisStore, store_url: str, name: str) -> None:
    """A missing round between others is an error."""
    model = await make_model(store, name)
    await play(store, model, 5)
    with raw(store_url) as client:
        client.xdel(keys.log(*model.key), "3-0")
    with pytest.raises(StoreCorruptError):
        await caught_up(Replica(model, store, COMPUTE))


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
        before = {key: client.dump(key) for key in (keys.model(name), keys.log(*model.key))}
        await play(store, model, 2, seed=2)
        await caught_up(replica)
        for key, value in before.items():
            assert isinstance(value, bytes)
            client.restore(key, 0, value, replace=True)
    await replica.snapshot()  # has the lost rounds: must not be kept
    if others:
        await play(store, model, others, seed=3, now=START + (0.0 if blocks else 9.0), blocks=blocks)
    assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 4 + others


async def test_a_failed_fold_leaves_no_partial_state(store: RedisStore, name: str) -> None:
    """After an error during a fold, the next fold starts from a complete state."""
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
    """A fold that keeps running in its thread after its caller was cancelled changes no state in use."""
    whole = await make_model(store, name, learner=GAPTRON)
    learner = CutShort(whole.learner, fold_cost=10**9)
    learner.broken = False
    compute = Compute(4)  # two folds per model: the cancelled one that keeps running, and the next
    replica = Replica(taught_by(whole, learner), store, compute)
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


@pytest.mark.parametrize("choice", [*LEARNER_CHOICES, LABEL_SET, RANKING], ids=lambda choice: str(choice["algorithm"]))
async def test_a_fold_in_a_thread_gives_the_same_bits(store: RedisStore, name: str, choice: dict[str, Any]) -> None:
    """A fold that runs in a thread because of its cost gives the same state."""
    whole = await make_model(store, name, learner=choice)
    learner = CutShort(whole.learner, fold_cost=10**9)
    learner.broken = False
    await play(store, whole, 50)
    assert await caught_up(Replica(taught_by(whole, learner), store, COMPUTE)) == await truth(store, whole)


async def test_concurrent_readers_see_complete_states(store: RedisStore, name: str) -> None:
    """Concurrent callers get the sequential fold."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, COMPUTE)
    await play(store, model, 300)
    states: Sequence[list[bytes]] = await asyncio.gather(*(caught_up(replica) for _ in range(5)))
    assert list(states) == [await truth(store, model)] * 5


async def test_a_replica_of_a_deleted_model_is_refused(store: RedisStore, name: str) -> None:
    """A replica never reads the log of a model that was created again under its name."""
    model = await make_model(store, name)
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await store.delete_model(name)
    second = await make_model(store, name, "second")
    await play(store, second, 5)
    with pytest.raises(ModelNotFoundError):
        await caught_up(replica)

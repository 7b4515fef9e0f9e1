"""The laws of a replica: however it came to a round, its state is the sequential fold, to the bit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from learners.codec import encode_state
from service.compute import Compute
from service.errors import ModelNotFoundError, StoreCorruptError
from service.models.model import Model
from service.replicas.replica import TAIL_LIMIT, Replica
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
    """The replica's state after it has caught up."""
    await replica.catch_up()
    return bits(replica.state)


async def truth(store: Store, model: Model) -> list[bytes]:
    """The sequential fold of a log that was never trimmed."""
    return bits(sequential_fold(model, await whole_log(store, model.key)))


@pytest.mark.parametrize("choice", [*LEARNER_CHOICES, LABEL_SET, RANKING], ids=lambda choice: str(choice["algorithm"]))
async def test_a_replica_catches_up_from_nothing(store: RedisStore, name: str, choice: dict[str, Any]) -> None:
    """From an empty start, over several pages of the log, the state is the sequential fold."""
    model = await make_model(store, name, learner=choice)
    await play(store, model, TAIL_LIMIT * 2 + 70)
    replica = Replica(model, store, COMPUTE)
    assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == TAIL_LIMIT * 2 + 70


async def test_a_replica_follows_the_log(store: RedisStore, name: str) -> None:
    """Catching up again folds what came since, and nothing twice."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, COMPUTE)
    for seed, n in enumerate((1, 3, 40, 1, 2)):
        await play(store, model, n, seed)
        assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 47
    assert await caught_up(replica) == await truth(store, model)


class Yielding(Compute):
    """Lets every other task run before each computation."""

    async def run_costly(self, cost: int, owner: str, function: Callable[..., _T], *args: Any) -> _T:
        """See `Compute.run_costly`."""
        await asyncio.sleep(0)
        return await super().run_costly(cost, owner, function, *args)


async def test_a_replica_catches_up_once_however_many_ask(store: RedisStore, name: str) -> None:
    """Who asks while it catches up waits for its turn, and finds nothing left to fold."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, Yielding(2))
    for seed in range(3):
        await play(store, model, 20, seed)
        await asyncio.gather(*(replica.catch_up() for _ in range(4)))
        assert bits(replica.state) == await truth(store, model)
        assert replica.statistics.counts().rounds == replica.round_count == 20 * (seed + 1)


async def test_a_replica_starts_from_a_snapshot(store: RedisStore, name: str) -> None:
    """With a snapshot and the tail behind it, the state is that of the whole log."""
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


async def test_a_replica_left_behind_a_trimmed_log_starts_from_its_snapshot(store: RedisStore, name: str) -> None:
    """When the rounds it needs are gone, a replica goes on from the snapshot: same state, fewer rounds read."""
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
    """The bytes in the store are those of the sequential fold, encoded."""
    model = await make_model(store, name)
    await play(store, model, 25)
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await replica.snapshot()
    state = sequential_fold(model, await whole_log(store, model.key))
    statistics = replica.statistics.counts().encode()
    assert await store.load_snapshot(model.key) == Snapshot(
        25, encode_state(model.learner, state), statistics=statistics
    )


async def test_a_replica_without_news_writes_no_snapshot(store: RedisStore, name: str) -> None:
    """Neither a replica that has loaded nothing nor one that has seen no more than the store's snapshot writes."""
    model = await make_model(store, name)
    await Replica(model, store, COMPUTE).snapshot()
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await replica.snapshot()
    assert await store.load_snapshot(model.key) is None


async def test_a_log_that_lacks_rounds_is_corrupt(store: RedisStore, store_url: str, name: str) -> None:
    """Where rounds are gone and no snapshot has seen them, nobody guesses."""
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
    """A damaged snapshot is refused, and not folded from, where the log no longer has what it had seen."""
    model = await make_model(store, name)
    await play(store, model, 3)
    state = damage(bytes(encode_state(model.learner, model.learner.init())))
    await store.save_snapshot(model.key, Snapshot(2, state), 100)
    with raw(store_url) as client:
        client.xtrim(keys.log(*model.key), minid="2-0", approximate=False)
    replica = Replica(model, store, COMPUTE)
    with pytest.raises(StoreCorruptError, match="cannot be read"):
        await caught_up(replica)
    assert replica.state is None


async def test_a_log_with_a_hole_is_corrupt(store: RedisStore, store_url: str, name: str) -> None:
    """A round that is missing between others is damage too."""
    model = await make_model(store, name)
    await play(store, model, 5)
    with raw(store_url) as client:
        client.xdel(keys.log(*model.key), "3-0")
    with pytest.raises(StoreCorruptError):
        await caught_up(Replica(model, store, COMPUTE))


@pytest.mark.parametrize("snapshot", [False, True], ids=["no-snapshot", "snapshot"])
@pytest.mark.parametrize("others", [0, 1, 3, 6])
@pytest.mark.parametrize("blocks", [None, 1])
async def test_a_log_that_lost_rounds_and_went_on_is_followed(
    store: RedisStore, store_url: str, name: str, others: int, snapshot: bool, blocks: int | None
) -> None:
    """After a fail-over that lost two rounds a worker forgets them, also where others have taken their numbers.

    These may be entries of one round, as those that were lost, or one entry that ends elsewhere.
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
    await replica.snapshot()  # of rounds that are no more: it must not be kept
    if others:
        await play(store, model, others, seed=3, now=START + (0.0 if blocks else 9.0), blocks=blocks)
    assert await caught_up(replica) == await truth(store, model)
    assert replica.round_count == 4 + others


async def test_a_fold_that_raises_is_never_half_used(store: RedisStore, name: str) -> None:
    """After an error in the middle of a fold the next one starts from what is known to be whole."""
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


async def test_a_fold_that_is_cancelled_is_never_half_used(store: RedisStore, name: str) -> None:
    """A fold left running in its thread, whose caller was cancelled, touches no state that is used later."""
    whole = await make_model(store, name, learner=GAPTRON)
    learner = CutShort(whole.learner, fold_cost=10**9)
    learner.broken = False
    compute = Compute(4)  # two for a model: the one that is left running, and another
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
    """A fold that is moved off the event loop for its length ends in the same state."""
    whole = await make_model(store, name, learner=choice)
    learner = CutShort(whole.learner, fold_cost=10**9)
    learner.broken = False
    await play(store, whole, 50)
    assert await caught_up(Replica(taught_by(whole, learner), store, COMPUTE)) == await truth(store, whole)


async def test_readers_of_one_replica_take_turns(store: RedisStore, name: str) -> None:
    """Whoever catches up at the same time sees whole states only, and each round is folded once."""
    model = await make_model(store, name, learner=GAPTRON)
    replica = Replica(model, store, COMPUTE)
    await play(store, model, 300)
    states: Sequence[list[bytes]] = await asyncio.gather(*(caught_up(replica) for _ in range(5)))
    assert list(states) == [await truth(store, model)] * 5


async def test_a_replica_of_a_gone_model_says_so(store: RedisStore, name: str) -> None:
    """A replica of a model deleted and made again never reads its successor's log."""
    model = await make_model(store, name)
    replica = Replica(model, store, COMPUTE)
    await caught_up(replica)
    await store.delete_model(name)
    second = await make_model(store, name, "second")
    await play(store, second, 5)
    with pytest.raises(ModelNotFoundError):
        await caught_up(replica)

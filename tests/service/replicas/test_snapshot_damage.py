"""The laws of damaged snapshots: a model works while its log has every round, and is refused otherwise."""

import asyncio
import json
from typing import Any

import pytest

from service.errors import StoreCorruptError
from service.models.model import Model
from service.replicas.replica import Replica
from service.replicas.statistics import STATISTICS_VERSION
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.servers import raw
from tests.service.sample_models import COMPUTE, bits, make_model, play, sequential_fold, whole_log

N = 9


@pytest.fixture
def model(store: RedisStore, name: str, runner: asyncio.Runner) -> Model:
    """Create a model whose snapshot has seen all of its rounds."""

    async def made() -> Model:
        model = await make_model(store, name)
        await play(store, model, N)
        await (await caught_up(store, model)).snapshot()
        return model

    return runner.run(made())


async def caught_up(store: RedisStore, model: Model) -> Replica:
    """Return a replica that has caught up."""
    replica = Replica(model, store, COMPUTE)
    async with asyncio.timeout(60.0):
        await replica.catch_up()
    return replica


def spoil(store_url: str, model: Model, damage: str) -> None:
    """Damage the snapshot."""
    key = keys.snapshot(*model.key)
    with raw(store_url) as client:
        state: Any = client.hget(key, "000000")
        match damage:
            case "last bit of the state":  # the changed number is still finite and plausible
                client.hset(key, "000000", state[:-8] + bytes([state[-8] ^ 1]) + state[-7:])
            case "fewer rounds":
                client.hincrby(key, "rounds", -1)
            case "more rounds":
                client.hincrby(key, "rounds", 1000)
            case "more rounds, without a check":
                client.hincrby(key, "rounds", 1000)
                client.hdel(key, "version", "changes", "check")
            case "no number":
                client.hset(key, "rounds", "?")
            case "another type":
                client.delete(key)
                client.set(key, "noise")


DAMAGE = {
    "last bit of the state": N,
    "fewer rounds": N - 1,
    "more rounds": N + 1000,
    "more rounds, without a check": N + 1000,
    "no number": 0,
    "another type": 0,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_snapshot_is_found_and_replaced(
    store: RedisStore, store_url: str, model: Model, damage: str
) -> None:
    """Every worker folds the log instead, the damage is recorded, and the next snapshot is loaded."""
    spoil(store_url, model, damage)
    replica = await caught_up(store, model)
    whole = await whole_log(store, model.key)
    assert (replica.round_count, replica.snapshot_rounds) == (N, 0)
    assert bits(replica.state) == bits(sequential_fold(model, whole))
    (found,) = (await store.read_damage(model.key)).found
    assert (found.snapshot, found.last) == (True, DAMAGE[damage])
    await replica.snapshot()
    other = await caught_up(store, model)
    assert (other.snapshot_rounds, bits(other.state)) == (N, bits(replica.state))
    assert other.statistics.counts() == replica.statistics.counts()


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_snapshot_that_is_needed_is_corrupt(
    store: RedisStore, store_url: str, model: Model, damage: str
) -> None:
    """If the log has been trimmed, the model is refused and the damage is recorded."""
    with raw(store_url) as client:
        client.xtrim(keys.log(*model.key), minid=f"{N}-0", approximate=False)
    spoil(store_url, model, damage)
    with pytest.raises(StoreCorruptError, match=r"snapshot .* cannot be read"):
        await caught_up(store, model)
    assert [each.snapshot for each in (await store.read_damage(model.key)).found] == [True]


async def test_a_damaged_snapshot_fills_no_hole(store: RedisStore, store_url: str, model: Model) -> None:
    """A log with a hole that only a damaged snapshot could fill is corrupt, and retries end."""
    spoil(store_url, model, "last bit of the state")
    with raw(store_url) as client:
        client.xdel(keys.log(*model.key), "5-0")
    with pytest.raises(StoreCorruptError):
        await caught_up(store, model)


async def test_a_counter_below_the_log_is_corrupt(store: RedisStore, store_url: str, model: Model) -> None:
    """A counter below the log's last round is an error, not a loss of rounds that a retry could resolve."""
    with raw(store_url) as client:
        client.hset(keys.model(model.name), "rounds", 4)
    with pytest.raises(StoreCorruptError):
        await caught_up(store, model)


async def test_a_model_without_rounds_needs_no_snapshot(store: RedisStore, store_url: str, name: str) -> None:
    """A model without rounds starts from the initial state, whatever its snapshot's key holds."""
    model = await make_model(store, name)
    spoil(store_url, model, "another type")
    assert bits((await caught_up(store, model)).state) == bits(model.learner.init())


async def test_a_worker_with_unreadable_statistics_writes_no_snapshot(store: RedisStore, model: Model) -> None:
    """With statistics of a newer version the model is served, and the newer snapshot stays."""
    stored = await store.load_snapshot(model.key)
    assert stored is not None
    later = json.loads(stored.statistics) | {"version": STATISTICS_VERSION + 1}
    await store.command("DEL", keys.snapshot(*model.key))
    newer = Snapshot(N, stored.state, statistics=json.dumps(later).encode(), digest=stored.digest)
    await store.save_snapshot(model.key, newer, 100)
    await play(store, model, 3, seed=2)
    replica = await caught_up(store, model)
    await replica.snapshot()
    assert await store.load_snapshot(model.key) == newer
    assert bits(replica.state) == bits(sequential_fold(model, await whole_log(store, model.key)))

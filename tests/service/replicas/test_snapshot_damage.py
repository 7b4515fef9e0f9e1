"""The laws of damaged snapshots: a model works while its log has every round, and is refused otherwise."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from learners.codec import encode_state
from service.errors import StoreCorruptError
from service.models.model import Model
from service.replicas.statistics import STATISTICS_VERSION
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.servers import raw
from tests.service.replicas.altering import fresh
from tests.service.sample_models import bits, make_model, play, sequential_fold, whole_log

N = 9


@pytest.fixture
def model(store: RedisStore, name: str, runner: asyncio.Runner) -> Model:
    """Create a model whose snapshot has seen all of its rounds."""

    async def made() -> Model:
        model = await make_model(store, name)
        await play(store, model, N)
        await (await fresh(store, model)).snapshot()
        return model

    return runner.run(made())


def without_check(client: Any, key: str) -> None:
    client.hincrby(key, "rounds", 1000)
    client.hdel(key, "version", "changes", "check")


def another_type(client: Any, key: str) -> None:
    client.delete(key)
    client.set(key, "noise")


def last_bit(client: Any, key: str) -> None:
    state = client.hget(key, "000000")  # the changed number is still finite and plausible
    client.hset(key, "000000", state[:-8] + bytes([state[-8] ^ 1]) + state[-7:])


DAMAGE: dict[str, tuple[Callable[[Any, str], Any], int]] = {
    "last bit of the state": (last_bit, N),
    "fewer rounds": (lambda client, key: client.hincrby(key, "rounds", -1), N - 1),
    "more rounds": (lambda client, key: client.hincrby(key, "rounds", 1000), N + 1000),
    "more rounds, without a check": (without_check, N + 1000),
    "no number": (lambda client, key: client.hset(key, "rounds", "?"), 0),
    "another type": (another_type, 0),
}
STATES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": lambda state: state[:-1],
    "cut in its header": lambda state: state[:40],
    "noise": lambda state: b"\xff" * len(state),
    "another learner": lambda state: state.replace(b"soba-diagonal", b"soba-diagonel"),
    "not a number": lambda state: state[:-8] + b"\0\0\0\0\0\0\xf8\x7f",
}


async def spoil(store: RedisStore, store_url: str, model: Model, damage: str) -> int:
    """Damage the snapshot, or write one whose state cannot be read; return the rounds that it claims to have."""
    if damage in STATES:
        await store.command("DEL", keys.snapshot(*model.key))
        state = STATES[damage](bytes(encode_state(model.learner, model.learner.init())))
        return await store.save_snapshot(model.key, Snapshot(N, state, digest=model.digest), 100)
    spoiling, rounds = DAMAGE[damage]
    with raw(store_url) as client:
        spoiling(client, keys.snapshot(*model.key))
    return rounds


@pytest.mark.parametrize("damage", [*DAMAGE, *STATES])
async def test_a_damaged_snapshot_is_found_and_replaced(
    store: RedisStore, store_url: str, model: Model, damage: str
) -> None:
    rounds = await spoil(store, store_url, model, damage)
    replica = await fresh(store, model)
    whole = await whole_log(store, model.key)
    assert (replica.round_count, replica.snapshot_rounds) == (N, 0)
    assert bits(replica.state) == bits(sequential_fold(model, whole))
    (found,) = (await store.read_damage(model.key)).found
    assert (found.snapshot, found.last) == (True, rounds)
    with raw(store_url) as client:
        assert client.zscore(keys.DAMAGED, model.name) is not None
    await replica.snapshot()
    other = await fresh(store, model)
    assert (other.snapshot_rounds, bits(other.state)) == (N, bits(replica.state))
    assert other.statistics.counts() == replica.statistics.counts()


@pytest.mark.parametrize("damage", [*DAMAGE, *STATES])
async def test_a_damaged_snapshot_that_is_needed_is_corrupt(
    store: RedisStore, store_url: str, model: Model, damage: str
) -> None:
    """If the log has been trimmed, the model is refused and the damage is recorded."""
    await store.command("XTRIM", keys.log(*model.key), "MINID", f"{N}-0")
    await spoil(store, store_url, model, damage)
    with pytest.raises(StoreCorruptError, match=r"snapshot .* cannot be read"):
        await fresh(store, model)
    assert [each.snapshot for each in (await store.read_damage(model.key)).found] == [True]


async def test_a_damaged_snapshot_fills_no_hole(store: RedisStore, store_url: str, model: Model) -> None:
    await spoil(store, store_url, model, "last bit of the state")
    await store.command("XDEL", keys.log(*model.key), "5-0")
    with pytest.raises(StoreCorruptError):
        await fresh(store, model)


async def test_a_model_without_rounds_needs_no_snapshot(store: RedisStore, store_url: str, name: str) -> None:
    model = await make_model(store, name)
    await spoil(store, store_url, model, "another type")
    assert bits((await fresh(store, model)).state) == bits(model.learner.init())


async def test_a_worker_with_unreadable_statistics_writes_no_snapshot(store: RedisStore, model: Model) -> None:
    """With statistics of a newer version the model is served, and the newer snapshot stays."""
    kept = await store.load_snapshot(model.key)
    assert kept is not None
    later = json.loads(kept.statistics) | {"version": STATISTICS_VERSION + 1}
    await store.command("DEL", keys.snapshot(*model.key))
    newer = kept._replace(statistics=json.dumps(later).encode())
    await store.save_snapshot(model.key, newer, 100)
    await play(store, model, 3, seed=2)
    replica = await fresh(store, model)
    await replica.snapshot()
    assert await store.load_snapshot(model.key) == newer
    assert bits(replica.state) == bits(sequential_fold(model, await whole_log(store, model.key)))

"""Each fault harms what it names, and nothing of it is left when it is over."""

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.chaos.faults.clocks import HOUR, FakeClock, clear_shared_memory, refused_clocks
from tests.chaos.faults.disk import FullDisk, SlowDisk, refused_disk, small_disk
from tests.chaos.faults.memory import EXPIRY, brief_fullness
from tests.chaos.faults.network import FaultyProxy, Weather, fragments
from tests.chaos.faults.processes import store_kills
from tests.chaos.faults.slots import ClusterFaults
from tests.chaos.history import Loss
from tests.clusters import cluster
from tests.servers import wait_until
from tests.store_servers import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="preloads libraries and mounts a file system")

_DELAY = 50_000  # microseconds


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Server, Path, SlowDisk, FakeClock]]:
    """Start a store on a small disk, with a disk that can be slow and a clock that can jump."""
    slow, clock = SlowDisk(tmp_path), FakeClock(tmp_path, "the store")
    environment = clock.environment(slow.environment())
    with (
        small_disk(tmp_path / "store", 2**24) as disk,
        Server(disk, environment=environment, **EXPIRY).start().ended() as store,
    ):
        wait_until(store.answers)
        yield store, disk, slow, clock
    clear_shared_memory()


@pytest.mark.skipif(bool(refused_disk()), reason=f"cannot mount: {refused_disk()}")
def test_a_full_disk_stops_writes_until_it_has_room(machine: tuple[Server, Path, SlowDisk, FakeClock]) -> None:
    """The store refuses writes while its disk is full, accepts them afterwards, and keeps what it acknowledged."""
    store, disk, *_ = machine
    full = FullDisk(store, disk, 0.0)
    store.send("SET", "before", 1)
    full.inflate(disk / "balloon")
    wait_until(full.refuses)
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        store.send("SET", "during", 1)
    (disk / "balloon").unlink()
    wait_until(full.can_write)
    store.send("SET", "after", 1)
    asyncio.run(store_kills(store)["killed store"]())
    assert store.send("EXISTS", "before", "after") == 2


@pytest.mark.skipif(bool(SlowDisk.try_compiler()), reason="no C compiler")
def test_a_slow_disk_delays_writes_and_nothing_else(machine: tuple[Server, Path, SlowDisk, FakeClock]) -> None:
    """A write takes at least the delay, unless the store puts it off during a flush; a read takes less.

    Without the delay, a write takes less too.
    """
    store, _, slow, _ = machine
    slow.turn(_DELAY)
    wait_until(lambda: _taken(store, "SET", "key", 1) >= _DELAY * 1e-6)
    wait_until(lambda: _taken(store, "GET", "key") < _DELAY * 1e-6)
    slow.turn(0)
    assert min(_taken(store, "SET", "key", 1) for _ in range(20)) < _DELAY * 1e-6


def _taken(store: Server, *command: str | int) -> float:
    begun = time.perf_counter()
    store.send(*command)
    return time.perf_counter() - begun


@pytest.mark.skipif(bool(refused_clocks()), reason="no libfaketime")
def test_a_clock_jumps_either_way_and_returns(machine: tuple[Server, Path, SlowDisk, FakeClock]) -> None:
    """The store's clock shows the jump, keys that live less than an hour expire by it, and others stay."""
    store, _, _, clock = machine
    store.send("SET", "brief", 1, "EX", HOUR // 2)
    store.send("SET", "lasting", 1, "EX", 2 * HOUR)
    for jump in (-HOUR, HOUR, 0):
        clock.turn(jump)
        wait_until(lambda: abs(store.send("TIME")[0] - time.time() - jump) < HOUR / 60)  # noqa: B023 - at once
        assert store.send("EXISTS", "lasting") == 1
        assert store.send("EXISTS", "brief") == (jump < 0)


async def test_full_memory_stops_writes_while_it_lasts(machine: tuple[Server, Path, SlowDisk, FakeClock]) -> None:
    """At its memory limit, the store refuses writes; without the limit, it accepts them."""
    store, *_ = machine
    filling = asyncio.create_task(brief_fullness(store, 1.0)["full memory"]())
    await asyncio.to_thread(wait_until, lambda: store.send("CONFIG", "GET", "maxmemory")["maxmemory"] == "1")
    with pytest.raises(redis.OutOfMemoryError):
        store.send("SET", "key", 1)
    await filling
    assert store.send("SET", "key", 1)


@pytest.mark.parametrize("size", [1, 2, 7, 2**16])
def test_fragments_are_the_data(size: int) -> None:
    """A stuttering network cuts data in several places, and loses, repeats or reorders nothing."""
    data, chance = os.urandom(size), random.Random(size)
    parts = fragments(data, chance)
    assert b"".join(parts) == data
    assert all(parts)
    assert len(parts) > 1 or size == 1


async def test_commands_survive_a_stuttering_network(machine: tuple[Server, Path, SlowDisk, FakeClock]) -> None:
    """A command and its reply pass a stuttering network unchanged."""
    store, *_ = machine
    async with FaultyProxy(store.port) as proxy:
        proxy.turn(Weather.STUTTER)
        async with redis.asyncio.Redis.from_url(proxy.url) as client:
            sent = os.urandom(10_000)
            await client.set("key", sent)
            assert await client.get("key") == sent


@pytest.mark.slow
async def test_faults_of_a_cluster_move_a_slot(tmp_path: Path) -> None:
    """After each fault, another server has the slot and its key, and all agree; only deaths may lose something."""
    losses: list[Loss] = []
    with cluster(tmp_path, node_timeout_ms=600) as fleet:
        faults = ClusterFaults(fleet, ["forest"], losses, seed=1, strays=0.0)
        slot = fleet.slot("wager:{forest}:here")
        fleet.owner(slot).send("SET", "wager:{forest}:here", 1)
        for fault in (*faults.planned().values(), *faults.deaths().values()):
            before = fleet.owner(slot)
            assert losses == []
            await fault()
            assert fleet.owner(slot) is not before
            assert fleet.owner(slot).send("GET", "wager:{forest}:here") == "1"
    assert len(losses) == 1

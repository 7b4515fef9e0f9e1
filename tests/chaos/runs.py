"""The runs: one store under every fault, fail-overs by Sentinel, and a cluster."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.clients import connect
from tests.chaos.faults.clocks import FakeClock, clear_shared_memory, refused_clocks
from tests.chaos.faults.disk import NO_REWRITING, FullDisk, SlowDisk, refused_disk, small_disk
from tests.chaos.faults.fail_overs import Death, primary_deaths
from tests.chaos.faults.fault import Fault, refused_packet_faults
from tests.chaos.faults.memory import EXPIRY, Flood, brief_fullness
from tests.chaos.faults.network import FaultyProxy
from tests.chaos.faults.processes import store_kills, worker_kills
from tests.chaos.faults.slots import ClusterFaults
from tests.chaos.history import Loss
from tests.chaos.others import OTHERS, TIMELESS
from tests.chaos.playing import GUARDED, RETURN, Length, guarded, play, served
from tests.chaos.world import Crowd, Report
from tests.clusters import cluster
from tests.fleets import sentinels
from tests.servers import wait_until
from tests.service.sample_models import SIZE
from tests.service.wager import Wager
from tests.store_servers import Server

NEWER = "tests.service.operations.next_version"
_FAULT = 0.7  # seconds that a fault lasts
_DISK_FAULT = 1.5  # long enough for a flush each second
_JUMP = 2.5  # libfaketime reads the offset once a second
_SILENCE = 2000
"""Milliseconds after which a primary counts as dead. A busy machine stops for a second, and a fail-over that no fault
made would look like lost data."""


def refusals() -> dict[str, str]:
    """Return the faults that this machine does not permit, each with the reason."""
    found = {
        "full disk": refused_disk(),
        "slow disk": SlowDisk.try_compiler(),
        "clocks that jump": refused_clocks(),
        "lost packets by tc netem (the fault `stutter` looks like them to TCP)": refused_packet_faults(),
    }
    return {name: why for name, why in found.items() if why}


async def run(
    folder: Path, length: Length, only: Sequence[str] = (), *, clocks: bool = False
) -> tuple[Report, Counter[str]]:
    """Run the service with one store under every fault of processes, network, memory and disk: nothing may be lost.

    Args:
        folder: folder for all data.
        length: duration, seed and workers.
        only: names of the faults to inject; all if empty.
        clocks: whether clocks jump too; then only clients take part whose expectations hold nevertheless.

    Returns:
        The report, and how often each fault was injected.
    """
    slow, clock = SlowDisk(folder), {name: FakeClock(folder, name) for name in ("the store", "the workers")}
    of_store = clock["the store"].environment(slow.environment()) if clocks else slow.environment()
    of_workers = clock["the workers"].environment() if clocks else {}
    wrong: list[str] = []
    options = EXPIRY | NO_REWRITING
    with small_disk(folder / "store") as disk, Server(disk, environment=of_store, **options).start().ended() as store:
        await asyncio.to_thread(wait_until, store.answers)
        async with (
            FaultyProxy(store.port, seed=length.seed) as proxy,
            guarded(folder, length.workers, proxy.url, **of_workers) as wager,
        ):
            faults: dict[str, Fault] = worker_kills(wager, length.seed) | store_kills(store) | proxy.faults(_FAULT)
            faults |= brief_fullness(store, _FAULT) | slow.faults(store, _DISK_FAULT)
            faults |= FullDisk(store, disk, _FAULT).faults()
            if clocks:
                faults |= Flood(wager.url, store, clock["the store"], wrong).faults()
                for each in clock.values():
                    faults |= each.faults(_JUMP, length.seed)
            chosen = {name: fault for name, fault in faults.items() if not only or name in only}
            report, injected = await play(wager, chosen, length, TIMELESS if clocks else OTHERS)
    clear_shared_memory()
    return report._replace(wrong=[*report.wrong, *wrong]), injected


async def upgrade(folder: Path, length: Length) -> tuple[Report, Counter[str]]:
    """Run two versions of the service on one store, each with half of the workers: nothing may be lost.

    The clients use both, as behind a load balancer. In the end, only the newer one can read what they use.

    Args:
        folder: folder for all data.
        length: duration, seed, and workers of both.
    """
    each = length._replace(workers=length.workers // 2)
    of_older = folder / "older"
    of_older.mkdir()
    with Server(folder / "store").start().ended() as store:
        await asyncio.to_thread(wait_until, store.answers)
        async with (
            FaultyProxy(store.port, seed=length.seed) as proxy,
            guarded(of_older, each.workers, proxy.url) as older,
            served(folder, each.workers, NEWER, WAGER_STORE_URL=proxy.url, **GUARDED) as wager,
        ):
            faults = store_kills(store) | proxy.faults(_FAULT) | brief_fullness(store, _FAULT)
            faults |= worker_kills(wager, length.seed) | worker_kills(older, length.seed, "killed older worker")
            report, injected = await play(wager, faults, each, OTHERS, older=older)
            wrong = await _too_new_violations(older)
    return report._replace(wrong=[*report.wrong, *wrong]), injected


async def _too_new_violations(older: Wager) -> list[str]:
    """Return a sentence if the older version answers for a model that the newer one has written to."""
    await asyncio.to_thread(wait_until, older.is_ready, RETURN)
    async with connect(older.url, timeout=60.0) as client:
        answer = await client.post("/predict", json={"model": Crowd.model, "context": [1.0] * SIZE})
    is_refused = answer.status_code == 503 and "newer-version" in answer.text
    return [] if is_refused else [f"the older version got {answer.status_code}: {answer.text}"]


async def fail_over(
    folder: Path, length: Length, deaths: Sequence[Death] = (Death.KILLED,), wait_replicas: int = 0, **options: Any
) -> tuple[Report, Counter[str]]:
    """Fail over repeatedly and kill workers; rounds that the replica did not have are lost, and counted.

    Args:
        folder: folder for all data.
        length: duration, seed and workers.
        deaths: how the primary fails.
        wait_replicas: number of replicas that must have a feedback before it is acknowledged.
        options: options of the servers.
    """
    with sentinels(folder, _SILENCE, **options) as watched:
        losses: list[Loss] = []
        environment = {"WAGER_STORE_URL": watched.url, "WAGER_WAIT_REPLICAS": str(wait_replicas)}
        async with served(folder, length.workers, **environment) as wager:
            faults = worker_kills(wager, length.seed)
            for death in deaths:
                faults |= primary_deaths(watched, losses, death)
            report, injected = await play(wager, faults, length, losses=losses)
        more = watched.fail_overs() - sum(injected[f"{death} primary"] for death in deaths)
        why = [f"Sentinel failed over {more} times without a fault: this machine is too busy"] if more > 0 else []
        return report._replace(wrong=[*why, *report.wrong] if report.wrong else []), injected


async def change_cluster(folder: Path, length: Length, *, deaths: bool) -> tuple[Report, Counter[str]]:
    """Move slots of a cluster of six servers, fail over by hand, and kill workers.

    Args:
        folder: folder for all data.
        length: duration, seed and workers.
        deaths: whether primaries are killed too. Then rounds that a replica did not have are lost, and counted;
            otherwise nothing may be lost.
    """
    losses: list[Loss] = []
    with cluster(folder, node_timeout_ms=_SILENCE) as fleet:
        async with guarded(folder, length.workers, fleet.url) as wager:
            models = [Crowd.model, *(each.model for each in OTHERS)]
            of_cluster = ClusterFaults(fleet, models, losses, length.seed)
            faults = worker_kills(wager, length.seed) | of_cluster.planned()
            faults |= of_cluster.deaths() if deaths else {}
            return await play(wager, faults, length, () if deaths else OTHERS, losses)

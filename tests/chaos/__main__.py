"""`python -m tests.chaos`: injects faults under load, and exits with 1 if anything was lost or duplicated."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.alterations import Alterations
from tests.chaos.clients import connect
from tests.chaos.faults import Fault, Faults, FaultyProxy
from tests.chaos.history import Loss
from tests.chaos.hooks import SECRET, Hooks
from tests.chaos.keyring import issue_keys
from tests.chaos.metered import Metered
from tests.chaos.offers import Offers
from tests.chaos.rivals import Rivals
from tests.chaos.silence import Silence
from tests.chaos.strangers import Strangers
from tests.chaos.world import Crowd, Report, judge
from tests.fleets import SentinelStore, Server, sentinels
from tests.servers import wait_until
from tests.service.wager import Wager, clients_of_each, serve

WORKERS = 2
PATIENCE = {"WAGER_STORE_TIMEOUT_SECONDS": "0.5"}
GUARDED = {"WAGER_AUTH": "required", "WAGER_MAX_REQUESTS_IN_FLIGHT": "200", "WAGER_WEBHOOK_SECRETS": SECRET}
"""Keys are required, and places are few but enough for the crowd."""


@asynccontextmanager
async def served(folder: Path, **environment: str) -> AsyncIterator[Wager]:
    """Run the service, starting and stopping it in a thread, because the store's proxy runs in this event loop."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, serve(folder, WORKERS, "service", **environment))
        await asyncio.to_thread(stack.close)


async def run(folder: Path, seconds: float, seed: int, only: Sequence[str] = ()) -> tuple[Report, Counter[str]]:
    """Run the service with one store on a bad network, where nothing may be lost.

    Args:
        folder: folder for all data.
        seconds: duration of the faults.
        seed: seed of the faults and of the clients.
        only: names of the faults to inject; all if empty.

    Returns:
        The report, and how often each fault was injected.
    """
    store = Server(folder / "store").start()
    with store.ended():
        await asyncio.to_thread(wait_until, store.answers)
        async with FaultyProxy(store.port) as proxy:
            await issue_keys(proxy.url)
            environment = PATIENCE | GUARDED | {"WAGER_STORE_URL": proxy.url}
            async with served(folder, **environment) as wager:
                faults = Faults(wager, store, proxy).all()
                chosen = {name: fault for name, fault in faults.items() if not only or name in only}
                return await _play_silent(wager, chosen, seconds, seed)


class Death(StrEnum):
    """How a primary fails."""

    KILLED = "killed"
    HASTY = "hasty"  # killed as soon as its replica counts as online, possibly before the replica has loaded its data
    CUT_OFF = "cut-off"  # still running, but cut off from its replica and the Sentinels


async def fail_over(
    folder: Path, seconds: float, seed: int, death: Death = Death.KILLED, wait_replicas: int = 0, **options: Any
) -> tuple[Report, Counter[str]]:
    """Fail over repeatedly; rounds that the replica did not have are lost, and counted.

    Args:
        folder: folder for all data.
        seconds: duration of the faults.
        seed: seed of the clients.
        death: how the primary fails.
        wait_replicas: number of replicas that must have a feedback before it is acknowledged.
        options: options of the servers.
    """
    replace = cut_off_primary if death is Death.CUT_OFF else partial(kill_primary, loaded=death is Death.KILLED)
    environment = PATIENCE | {"WAGER_WAIT_REPLICAS": str(wait_replicas)}
    with sentinels(folder, 500, **options) as watched:
        losses: list[Loss] = []
        async with served(folder, **environment, WAGER_STORE_URL=watched.url) as wager:
            faults = {f"{death} primary": lambda: replace(watched, losses)}
            return await _play(wager, faults, seconds, seed, losses)


async def kill_primary(watched: SentinelStore, losses: list[Loss], loaded: bool = True) -> None:
    """`kill -9` the primary and restart it as a replica; append the time span to `losses`.

    If not `loaded`, return as soon as the replica counts as online.
    """
    begun, primary = time.monotonic(), watched.primary()
    primary.kill()
    await asyncio.to_thread(wait_until, lambda: watched.primary() is not primary)
    primary.start()
    await asyncio.to_thread(wait_until, partial(watched.is_whole, loaded))
    losses.append(Loss(begun, time.monotonic()))


async def cut_off_primary(watched: SentinelStore, losses: list[Loss]) -> None:
    """Cut the primary off from all but the workers until a second after a fail-over; it returns as a replica."""
    begun, primary = time.monotonic(), watched.primary()
    await asyncio.to_thread(watched.cut_off, primary)
    await asyncio.to_thread(wait_until, lambda: watched.primary() is not primary)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(watched.join, primary)
    await asyncio.to_thread(wait_until, watched.is_whole)
    losses.append(Loss(begun, time.monotonic(), split=True))


async def _play_silent(
    wager: Wager, faults: Mapping[str, Fault], seconds: float, seed: int
) -> tuple[Report, Counter[str]]:
    """Play with two more models: predictions of one mostly expire, and the other is changed. Check all."""
    others = tuple(kind(wager.url, seed) for kind in (Silence, Alterations, Offers, Hooks, Metered, Strangers, Rivals))
    for each in others:
        await each.create_model()
    playing = [asyncio.create_task(each.play()) for each in others]
    try:
        report, injected = await _play(wager, faults, seconds, seed)
    finally:
        for each in others:
            each.over = True
        await asyncio.gather(*playing)
    async with connect(wager.url, timeout=10.0) as client:
        wrong = [line for each in others for line in await each.violations(client)]
    return report._replace(wrong=[*report.wrong, *wrong]), injected


async def _play(
    wager: Wager, faults: Mapping[str, Fault], seconds: float, seed: int, losses: Sequence[Loss] = ()
) -> tuple[Report, Counter[str]]:
    """Run the crowd while faults follow one another; then check everything."""
    crowd, injected = Crowd(wager.url, seed), Counter[str]()
    await crowd.create_model()
    playing = asyncio.create_task(crowd.play())
    try:
        await _inject(faults, seconds, seed, injected)
    finally:
        crowd.over = True
        await playing
    await asyncio.to_thread(wait_until, lambda: len(wager.worker_pids()) == WORKERS and wager.is_ready())
    async with clients_of_each(wager, WORKERS, patience=240.0) as clients:  # a worker compiles when it starts
        return await judge(crowd, clients, losses), injected


async def _inject(faults: Mapping[str, Fault], seconds: float, seed: int, injected: Counter[str]) -> None:
    """Inject every fault in turn, in a new random order each time, with pauses in between."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    while True:
        for name in chance.sample(sorted(faults), len(faults)):
            await asyncio.sleep(chance.uniform(0.1, 0.5))
            if time.monotonic() > end:
                return
            await faults[name]()
            injected[name] += 1


def show(report: Report, injected: Counter[str]) -> None:
    """Print the report."""
    print("injected     " + ", ".join(f"{count} x {name}" for name, count in sorted(injected.items())))  # noqa: T201
    print("requests     " + ", ".join(f"{count} x {name}" for name, count in sorted(report.requests.items())))  # noqa: T201
    print(f"acknowledged {report.acknowledged}\nin the log   {report.rounds}")  # noqa: T201
    print(f"lost         {len(report.lost)}\nre-recorded  {len(report.renewed)}")  # noqa: T201
    for line in report.wrong[:20]:
        print(f"wrong        {line}")  # noqa: T201


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the faults")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults and of the clients")
    parser.add_argument("--fault", action="append", default=[], help="inject only this fault; may be repeated")
    parser.add_argument("--fail-over", action="store_true", help="fail over with Sentinel instead, and count losses")
    parser.add_argument("--min-replicas", action="store_true", help="set min-replicas-to-write 1")
    parser.add_argument("--wait-replicas", type=int, default=0, help="WAGER_WAIT_REPLICAS, with --fail-over")
    parser.add_argument("--death", type=Death, choices=list(Death), default=Death.KILLED, help="how a primary fails")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        if arguments.fail_over:
            options: dict[str, Any] = (
                {"min_replicas_to_write": "1", "min_replicas_max_lag": "1"} if arguments.min_replicas else {}
            )
            common = (arguments.seconds, arguments.seed, arguments.death, arguments.wait_replicas)
            counted = asyncio.run(fail_over(Path(folder), *common, **options))
        else:
            counted = asyncio.run(run(Path(folder), arguments.seconds, arguments.seed, arguments.fault))
    show(*counted)
    sys.exit(bool(counted[0].wrong or (counted[0].lost and not arguments.fail_over)))


if __name__ == "__main__":
    main()

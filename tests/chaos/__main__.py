"""`python -m tests.chaos`: breaks things under load and counts; exits with 1 if anything was lost or doubled."""

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

from tests.chaos.faults import Fault, Faults, FaultyProxy
from tests.chaos.history import Loss
from tests.chaos.world import Crowd, Report, judge
from tests.fleets import SentinelStore, Server, sentinels
from tests.servers import wait_until
from tests.service.wager import Wager, clients_of_each, serve

WORKERS = 2
PATIENCE = {"WAGER_STORE_TIMEOUT_SECONDS": "0.5"}


@asynccontextmanager
async def served(folder: Path, **environment: str) -> AsyncIterator[Wager]:
    """The service, started and stopped beside the event loop, in which its store's proxy runs."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, serve(folder, WORKERS, **environment))
        await asyncio.to_thread(stack.close)


async def run(folder: Path, seconds: float, seed: int, only: Sequence[str] = ()) -> tuple[Report, Counter[str]]:
    """One store behind a bad network: nothing may be lost.

    Args:
        folder: for all data.
        seconds: how long things go wrong.
        seed: of what goes wrong, and of what the clients do.
        only: the faults; all if none is named.

    Returns:
        What was counted, and how often each fault came.
    """
    store = Server(folder / "store").start()
    with store.ended():
        await asyncio.to_thread(wait_until, store.answers)
        async with FaultyProxy(store.port) as proxy:
            environment = PATIENCE | {"WAGER_STORE_URL": proxy.url}
            async with served(folder, **environment) as wager:
                faults = Faults(wager, store, proxy).all()
                chosen = {name: fault for name, fault in faults.items() if not only or name in only}
                return await _play(wager, chosen, seconds, seed)


class Death(StrEnum):
    """How a primary ends."""

    KILLED = "killed"
    HASTY = "hasty"  # killed when its replica was called online, and had perhaps not loaded what it was sent
    CUT_OFF = "cut-off"  # it lives on, out of reach of its replica and the Sentinels


async def fail_over(
    folder: Path, seconds: float, seed: int, death: Death = Death.KILLED, wait_replicas: int = 0, **options: Any
) -> tuple[Report, Counter[str]]:
    """A primary that dies again and again: what its replica did not have is lost, and counted.

    Args:
        folder: for all data.
        seconds: how long things go wrong.
        seed: of what the clients do.
        death: how it ends.
        wait_replicas: how many must have a feedback before it is acknowledged.
        options: of the servers.
    """
    replace = cut_off_primary if death is Death.CUT_OFF else partial(kill_primary, loaded=death is Death.KILLED)
    environment = PATIENCE | {"WAGER_WAIT_REPLICAS": str(wait_replicas)}
    with sentinels(folder, 500, **options) as watched:
        losses: list[Loss] = []
        async with served(folder, **environment, WAGER_STORE_URL=watched.url) as wager:
            faults = {f"{death} primary": lambda: replace(watched, losses)}
            return await _play(wager, faults, seconds, seed, losses)


async def kill_primary(watched: SentinelStore, losses: list[Loss], loaded: bool = True) -> None:
    """`kill -9` of the primary; the old one comes back as a replica, which may load still. Notes when."""
    begun, primary = time.monotonic(), watched.primary()
    primary.kill()
    await asyncio.to_thread(wait_until, lambda: watched.primary() is not primary)
    primary.start()
    await asyncio.to_thread(wait_until, partial(watched.is_whole, loaded))
    losses.append(Loss(begun, time.monotonic()))


async def cut_off_primary(watched: SentinelStore, losses: list[Loss]) -> None:
    """The workers alone reach the primary, until a second after there is another; it comes back as a replica."""
    begun, primary = time.monotonic(), watched.primary()
    await asyncio.to_thread(watched.cut_off, primary)
    await asyncio.to_thread(wait_until, lambda: watched.primary() is not primary)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(watched.join, primary)
    await asyncio.to_thread(wait_until, watched.is_whole)
    losses.append(Loss(begun, time.monotonic(), split=True))


async def _play(
    wager: Wager, faults: Mapping[str, Fault], seconds: float, seed: int, losses: Sequence[Loss] = ()
) -> tuple[Report, Counter[str]]:
    """The crowd plays while one fault after another comes; then everything is counted."""
    crowd, happened = Crowd(wager.url, seed), Counter[str]()
    await crowd.create_model()
    playing = asyncio.create_task(crowd.play())
    try:
        await _trouble(faults, seconds, seed, happened)
    finally:
        crowd.over = True
        await playing
    await asyncio.to_thread(wait_until, lambda: len(wager.worker_pids()) == WORKERS and wager.is_ready())
    async with clients_of_each(wager, WORKERS, patience=240.0) as clients:  # a worker compiles when it starts
        return await judge(crowd, clients, losses), happened


async def _trouble(faults: Mapping[str, Fault], seconds: float, seed: int, happened: Counter[str]) -> None:
    """Every fault in turn, in an order that is drawn anew each time, with quiet moments in between."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    while True:
        for name in chance.sample(sorted(faults), len(faults)):
            await asyncio.sleep(chance.uniform(0.1, 0.5))
            if time.monotonic() > end:
                return
            await faults[name]()
            happened[name] += 1


def show(report: Report, happened: Counter[str]) -> None:
    """Prints what was counted."""
    print("happened     " + ", ".join(f"{count} x {name}" for name, count in sorted(happened.items())))  # noqa: T201
    print("requests     " + ", ".join(f"{count} x {name}" for name, count in sorted(report.requests.items())))  # noqa: T201
    print(f"acknowledged {report.acknowledged}\nin the log   {report.rounds}")  # noqa: T201
    print(f"lost         {len(report.lost)}\nanew         {len(report.renewed)}")  # noqa: T201
    for line in report.wrong[:20]:
        print(f"wrong        {line}")  # noqa: T201


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long things go wrong")
    parser.add_argument("--seed", type=int, default=1, help="of what goes wrong, and of what clients do")
    parser.add_argument("--fault", action="append", default=[], help="this fault only; may be repeated")
    parser.add_argument("--fail-over", action="store_true", help="Sentinel fail-overs instead: losses are measured")
    parser.add_argument("--min-replicas", action="store_true", help="with min-replicas-to-write 1")
    parser.add_argument("--wait-replicas", type=int, default=0, help="WAGER_WAIT_REPLICAS, with --fail-over")
    parser.add_argument("--death", type=Death, choices=list(Death), default=Death.KILLED, help="of a primary")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        if given.fail_over:
            options: dict[str, Any] = (
                {"min_replicas_to_write": "1", "min_replicas_max_lag": "1"} if given.min_replicas else {}
            )
            how = (given.seconds, given.seed, given.death, given.wait_replicas)
            counted = asyncio.run(fail_over(Path(folder), *how, **options))
        else:
            counted = asyncio.run(run(Path(folder), given.seconds, given.seed, given.fault))
    show(*counted)
    sys.exit(bool(counted[0].wrong or (counted[0].lost and not given.fail_over)))


if __name__ == "__main__":
    main()

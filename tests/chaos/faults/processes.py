"""Killed processes: workers and the store."""

import asyncio
import os
import random
import signal

from tests.chaos.faults.fault import Fault, MissedError
from tests.servers import wait_until
from tests.service.wager import Wager
from tests.store_servers import Server

PAUSE = 0.35
"""Seconds for which a killed store is down."""


def worker_kills(wager: Wager, seed: int, name: str = "killed worker") -> dict[str, Fault]:
    """Return the fault that kills a random worker, by name."""
    chance = random.Random(seed)

    async def kill() -> None:
        pids = wager.worker_pids()
        if len(pids) < 2:  # at least one worker survives
            raise MissedError
        os.kill(chance.choice(pids), signal.SIGKILL)

    return {name: kill}


def store_kills(store: Server) -> dict[str, Fault]:
    """Return the fault that kills the store and restarts it on the same data, by name."""

    async def kill() -> None:
        store.kill()
        await asyncio.sleep(PAUSE)
        store.start()
        await asyncio.to_thread(wait_until, store.answers)

    return {"killed store": kill}

"""Fail-overs by Sentinel: the primary is killed, or cut off from all but the workers."""

import asyncio
import time
from enum import StrEnum
from functools import partial

from tests.chaos.faults.fault import Fault
from tests.chaos.history import Loss
from tests.fleets import SentinelStore
from tests.servers import wait_until


class Death(StrEnum):
    """How a primary fails."""

    KILLED = "killed"
    HASTY = "hasty"  # killed as soon as its replica counts as online, possibly before the replica has loaded its data
    CUT_OFF = "cut-off"  # still running, but cut off from its replica and the Sentinels


def primary_deaths(watched: SentinelStore, losses: list[Loss], death: Death) -> dict[str, Fault]:
    """Return the fault that ends a primary in one way, by name; it appends its time span to `losses`."""
    if death is Death.CUT_OFF:
        return {f"{death} primary": partial(cut_off_primary, watched, losses)}
    return {f"{death} primary": partial(kill_primary, watched, losses, loaded=death is Death.KILLED)}


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

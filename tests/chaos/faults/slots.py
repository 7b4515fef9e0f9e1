"""Faults of a cluster: killed primaries, fail-overs by hand, and slots that move under traffic."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

import redis

from service.store import keys
from tests.chaos.faults.fault import Fault, MissedError
from tests.chaos.history import Loss
from tests.clusters import SLOTS, Cluster, move_by_key, move_in_one_step
from tests.servers import wait_until
from tests.store_servers import Server

_KEYS_AT_ONCE = 200
_HANDOVER = 8.0  # seconds after which a fail-over by hand has happened or was given up


class ClusterFaults:
    """The faults of a cluster.

    Args:
        fleet: the cluster.
        models: names of models whose slots move.
        losses: list to which the time spans of killed primaries are appended.
        seed: seed of the choices.
        strays: how often a fault concerns any other slot, as a probability.
    """

    def __init__(
        self, fleet: Cluster, models: Sequence[str], losses: list[Loss], seed: int, strays: float = 0.2
    ) -> None:
        self._fleet = fleet
        self._models = models
        self._losses = losses
        self._chance = random.Random(seed)
        self._strays = strays

    def planned(self) -> dict[str, Fault]:
        """Return the changes that an operator makes, and that lose nothing, by name."""
        return {
            "fail-over by hand": self.fail_over,
            "slot moved by key": partial(self.move_slot, partial(move_by_key, at_once=_KEYS_AT_ONCE)),
            "slot moved in one step": partial(self.move_slot, move_in_one_step),
        }

    def deaths(self) -> dict[str, Fault]:
        """Return the faults that may lose what a replica lacks, by name."""
        return {"killed primary": self.kill_primary}

    async def kill_primary(self) -> None:
        """`kill -9` the primary of a model, let its replica take over, and restart it as a replica."""
        slot = self._slot()
        begun, primary = time.monotonic(), self._fleet.owner(slot)
        primary.kill()
        await asyncio.to_thread(wait_until, lambda: self._takes(slot) not in {None, primary.port})
        primary.start()
        await self._is_whole()
        self._losses.append(Loss(begun, time.monotonic()))

    async def fail_over(self) -> None:
        """Make the replica of a model's primary the primary, by `CLUSTER FAILOVER`: the primary waits for it."""
        slot = self._slot()
        replica = self._fleet.replica_of(self._fleet.owner(slot))
        replica.send("CLUSTER", "FAILOVER")
        try:
            await asyncio.to_thread(wait_until, lambda: self._takes(slot) == replica.port, _HANDOVER)
        except TimeoutError as aborted:  # the replica gives up after five seconds if a vote is late
            raise MissedError from aborted
        finally:
            await self._is_whole()

    async def move_slot(self, move: Callable[[Cluster, int, Server, Server], None]) -> None:
        """Move the slot of a model, or another one, to another primary."""
        slot = self._slot()
        source = self._fleet.owner(slot)
        target = self._chance.choice([each for each in self._fleet.primaries() if each is not source])
        try:
            await asyncio.to_thread(move, self._fleet, slot, source, target)
        except redis.ResponseError as error:
            if "MIGRATESLOTS" in str(error) or "unknown subcommand" in str(error).lower():
                raise MissedError from error  # a server older than Valkey 9
            raise
        await asyncio.to_thread(wait_until, lambda: self._takes(slot) == target.port)
        await self._is_whole()

    def _slot(self) -> int:
        if self._chance.random() < self._strays:
            return self._chance.randrange(SLOTS)
        return self._fleet.slot(keys.model(self._chance.choice(self._models)))

    def _takes(self, slot: int) -> int | None:
        """Return the port of the server that serves a slot, None if none does."""
        try:
            return self._fleet.owner(slot).port
        except LookupError:
            return None

    async def _is_whole(self) -> None:
        await asyncio.to_thread(wait_until, self._fleet.is_whole)

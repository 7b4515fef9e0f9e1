"""One worker of a simulation: the real use cases, sessions, replicas and visits, without HTTP."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar, TypeVarTuple

import numpy as np

from service.background.due_models import expiry, retention
from service.background.erasure import Erasure
from service.background.shadow_folds import shadow_folds
from service.compute import Compute
from service.environment import Environment
from service.lifecycle.copying import Copying
from service.lifecycle.promoting import Promoting
from service.lifecycle.replacing import Replacing
from service.lifecycle.snapshots import Snapshots
from service.lifecycle.use_cases import Lifecycle
from service.models.model import Limits
from service.registry.registry import ModelRegistry
from service.rounds.flags import Flags
from service.rounds.sessions import ModelSession, SessionCache
from service.rounds.use_cases import RoundService
from service.shadows.use_cases import Shadows
from service.store.connections.connections import Confirmed, Connection
from service.store.redis import redis_store
from service.store.redis.redis_store import RedisStore
from tests.simulation.event_loop import Clock, VirtualLoop
from tests.simulation.network import Network, SimulatedConnection

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

LIMITS = Limits(2**30, 10**12, 2**30)
_TIMEOUT = 2.0  # seconds to wait for the server
_SESSION_BYTES = 2**20
_LONGEST_COMPUTATION = 0.02  # seconds


class InlineCompute(Compute):
    """Runs what `Compute` runs in threads: after a random time, at once, and until a random time later.

    Args:
        rng: draws the times; None for no time at all.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        super().__init__(2)
        self._rng = rng

    async def run(self, _: str, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """See `Compute.run`."""
        await self._pass()
        result = function(*args)
        await self._pass()
        return result

    async def _pass(self) -> None:
        if self._rng is not None:
            await asyncio.sleep(_LONGEST_COMPUTATION * self._rng.random())


redis_store._PART_BYTES = 64  # so that a snapshot has several parts, as large ones do


class SimulatedStore(RedisStore):
    """The store over a connection of the simulation."""

    def __init__(self, connection: Connection, replicas: int, most_open_bytes: int = 0) -> None:
        self._connection = self._bulk = connection
        self._max_open_bytes = most_open_bytes
        self._confirmed = Confirmed(connection, replicas, _TIMEOUT / 2)
        self._turn = asyncio.Semaphore(32)


class Settings(NamedTuple):
    """The settings of workers."""

    replicas: int = 0  # that must have feedback before it is acknowledged
    most_open_bytes: int = 0  # of the predictions of a model; 0 for any


PLAIN = Settings()


class SimulatedWorker:
    """A process that can be killed between any two turns of its event loop.

    Args:
        name: identifies the process; a restarted worker is another process.
        clock: the time of the simulation.
        network: connects it with the server.
        seed: of its random numbers.
        settings: the same for all workers.
        visits: whether it runs what a worker does each second, and its computations take time.
    """

    def __init__(
        self, name: str, clock: Clock, network: Network, seed: list[int], settings: Settings, *, visits: bool = True
    ) -> None:
        self.name = name
        self.loop = VirtualLoop(clock)
        self._clock = clock
        self.wall_offset = 0.0  # seconds by which its clock is wrong
        self.stopped_until = 0  # the step in which it continues
        self.avoided_until = 0  # the step from which it gets requests again
        self.rng = np.random.default_rng(seed)
        with self.loop.current():
            connection = SimulatedConnection(network, self.loop, name, _TIMEOUT)
            self.store = SimulatedStore(connection, *settings)
            compute = InlineCompute(self.rng if visits else None)
            self.environment = Environment(
                self.store,
                compute,
                self._now,
                self.rng,
                self._new_id,
                self.loop.time,
            )
            self.sessions = SessionCache(self.environment, _SESSION_BYTES)
            self.rounds, self.flags = RoundService(self.sessions, 100_000), Flags(self.sessions)
            self.registry = ModelRegistry(self.environment, LIMITS, self.sessions.forget)
            self.shadows = Shadows(self.environment, LIMITS)
            self.lifecycle = _lifecycle(self.environment, self.sessions, self.registry)
            if visits:
                self._start_visits()

    @property
    def loaded(self) -> list[ModelSession]:
        """The sessions that the worker has."""
        return list(self.sessions._sessions.values())

    def _start_visits(self) -> None:
        environment, sessions = self.environment, self.sessions
        visits: list[Callable[[], Awaitable[None]]] = [
            sessions.maintain,
            expiry(environment, sessions).run,
            retention(environment, sessions).run,
            shadow_folds(environment).run,
            Erasure(environment).run,
        ]
        for visit in visits:
            self.loop.spawn(_each_second(visit, self.rng.random()))

    def _now(self) -> float:
        return self._clock.now + self.wall_offset

    def _new_id(self) -> str:
        return base64.urlsafe_b64encode(self.rng.bytes(15)).decode()


def _lifecycle(environment: Environment, sessions: SessionCache, registry: ModelRegistry) -> Lifecycle:
    return Lifecycle(
        snapshots=Snapshots(environment, sessions),
        replacing=Replacing(environment, LIMITS, registry),
        copying=Copying(environment, LIMITS, sessions),
        promoting=Promoting(environment, LIMITS, registry),
    )


async def _each_second(visit: Callable[[], Awaitable[None]], first: float) -> None:
    await asyncio.sleep(first)
    while True:
        await visit()
        await asyncio.sleep(1.0)

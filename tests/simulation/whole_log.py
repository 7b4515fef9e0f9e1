"""The store that the sequential fold reads: the whole log, without snapshots, and the data of the server as it is."""

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from service.models.model import Model
from service.models.reading import stored_model
from service.store import keys
from service.store.connections.addresses import Kind
from service.store.connections.connections import Primary
from service.store.redis.model_hash import read_model
from service.store.stored_models import ModelKey, digest_at
from service.store.values import ChangeEntry, DamageRecord, LogEntry, Snapshot, Tail
from tests.simulation.network import converted
from tests.simulation.redis_server import RedisServer
from tests.simulation.workers import SimulatedStore

if TYPE_CHECKING:
    from tests.simulation.truth import Truth


class DirectConnection:
    """Runs commands at once, outside of the simulation.

    Args:
        server: runs them.
    """

    kind = Kind.SERVER

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def call(self, *command: Any) -> Any:
        """See `Connection.call`."""
        return converted(command, self._server.look(*command))

    async def call_and_wait(self, _: int, __: float, *command: Any) -> tuple[Any, int]:
        """See `Connection.call_and_wait`."""
        raise NotImplementedError

    async def copy(self, _: Callable[[bytes], object]) -> None:
        """See `Connection.copy`."""
        raise NotImplementedError

    async def primaries(self) -> list[Primary]:
        """See `Connection.primaries`."""
        return []

    async def close(self) -> None:
        """Do nothing."""


class WholeLog(SimulatedStore):
    """Implements what a replica reads.

    Args:
        server: holds everything but the log.
        truth: has the log.
    """

    def __init__(self, server: RedisServer, truth: "Truth") -> None:
        super().__init__(DirectConnection(server), 0)
        self._server = server
        self._truth = truth

    def stored_model(self, key: ModelKey) -> Model:
        """Return the model as the server has it, before its changes."""
        stored = read_model(key.name, converted(("HGETALL",), self._server.look("HGETALL", keys.model(key.name))))
        assert stored is not None
        assert stored.key == key
        return stored_model(stored, 0)

    async def read_tail(self, _: ModelKey, after: int, __: int) -> Tail:
        """See `Store.read_tail`."""
        entries = list(takewhile(lambda entry: _last_round(entry) >= after, reversed(self._truth.entries)))[::-1]
        rounds = [each for each in entries if isinstance(each, LogEntry) and each.last_round > after]
        changes = tuple(each for each in entries if isinstance(each, ChangeEntry))
        count = self._truth.change_count
        return Tail(len(self._truth.rounds), rounds, 0, count, changes, self.digest_at(count))

    def digest_at(self, change_count: int) -> bytes:
        """Return the digest of the model's history up to some change, as the server has it."""
        name = self._truth.key.name
        return digest_at(self._server.look("HGET", keys.model(name), "digests"), change_count)

    async def load_snapshot(self, _: ModelKey) -> Snapshot | None:
        """Return None: the fold begins with the first round."""
        return None

    async def stored_snapshot(self, key: ModelKey) -> Snapshot | None:
        """Return the snapshot that the server has."""
        return await super().load_snapshot(key)

    async def read_damage(self, _: ModelKey) -> DamageRecord:
        """Return no damage: the simulation damages nothing."""
        return DamageRecord(0, [])


def _last_round(entry: LogEntry | ChangeEntry) -> int:
    return entry.round_count if isinstance(entry, ChangeEntry) else entry.last_round

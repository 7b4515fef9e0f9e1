"""When a worker writes a snapshot of a model: after many rounds, or after some time."""

from collections.abc import Callable

from service.replicas.replica import Replica

SNAPSHOT_EVERY = 1_000
"""Minimum new rounds and changes that trigger a snapshot."""

SNAPSHOT_PAUSE = 1.0
"""Minimum seconds between two snapshots. Folding the rounds of one second again takes less time."""

SNAPSHOT_AGE = 30.0
"""Seconds after which a snapshot is written even with few new rounds; longer for a large state."""

_BYTES_PER_SECOND = 2_000_000


class SnapshotPolicy:
    """The snapshot policy of one replica.

    Args:
        replica: the replica whose state is written.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, now: Callable[[], float]) -> None:
        self._replica = replica
        self._now = now
        self._begun_at = now()

    def begin(self) -> None:
        """Note that a snapshot is being written."""
        self._begun_at = self._now()

    @property
    def has_many_rounds(self) -> bool:
        """Whether enough new rounds and changes exist to write a snapshot without waiting for the next upkeep."""
        new = self._new
        if new < SNAPSHOT_EVERY or self._now() - self._begun_at < SNAPSHOT_PAUSE:
            return False
        return new >= self._replica.bytes // self._replica.model.choice.records.round_bytes

    @property
    def is_due(self) -> bool:
        """Whether the next upkeep must write a snapshot."""
        aged = self._now() - self._begun_at >= SNAPSHOT_AGE + self._replica.bytes / _BYTES_PER_SECOND
        return self.has_many_rounds or (aged and self._new > 0)

    @property
    def _new(self) -> int:
        """The rounds and changes that the latest snapshot lacks."""
        replica = self._replica
        return replica.round_count - replica.snapshot_rounds + replica.change_count - replica.snapshot_changes

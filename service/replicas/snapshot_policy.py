"""When a worker writes a snapshot of a model: after many rounds, or after some time."""

from collections.abc import Callable

from service.replicas.replica import Replica

SNAPSHOT_EVERY = 1_000
"""Fewest rounds between two snapshots that are not written for their age."""

SNAPSHOT_PAUSE = 1.0
"""Fewest seconds between two snapshots: what came in one is folded again in less."""

SNAPSHOT_AGE = 30.0
"""Seconds after which a snapshot is written though few rounds have come; a large state takes longer."""

_BYTES_PER_SECOND = 2_000_000


class SnapshotPolicy:
    """The policy of one replica.

    Args:
        replica: whose state is written.
        now: seconds since the epoch.
    """

    def __init__(self, replica: Replica, now: Callable[[], float]) -> None:
        self._replica = replica
        self._now = now
        self._after = max(SNAPSHOT_EVERY, replica.bytes // replica.model.format.round_bytes)
        self._age = SNAPSHOT_AGE + replica.bytes / _BYTES_PER_SECOND
        self._begun_at = now()

    def begin(self) -> None:
        """Note that a snapshot is being written."""
        self._begun_at = self._now()

    @property
    def has_many_rounds(self) -> bool:
        """Whether enough rounds have come to write one soon."""
        paused = self._now() - self._begun_at >= SNAPSHOT_PAUSE
        return paused and self._replica.round_count - self._replica.snapshot_rounds >= self._after

    @property
    def is_due(self) -> bool:
        """Whether one is to be written with the next upkeep."""
        aged = self._now() - self._begun_at >= self._age
        return self.has_many_rounds or (aged and self._replica.round_count > self._replica.snapshot_rounds)

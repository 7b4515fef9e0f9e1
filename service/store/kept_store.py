"""The part of the store's interface that keeps snapshots of a model for later. See `service.store.base`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from service.store.stored_models import ModelKey

MOST_KEPT = 20
"""Maximum kept snapshots of a model."""


class Snapshot(NamedTuple):
    """The state after the first rounds and changes of the log, and the statistics of these rounds."""

    round_count: int
    state: bytes | memoryview
    last_at: bytes | None = None  # mark of the last entry (`service.store.log_entries`); None if unknown
    statistics: bytes = b""
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0
    digest: bytes = b""  # of the history up to these changes


class KeptNote(NamedTuple):
    """What the list of a model's kept snapshots says about one of them."""

    id: str
    round_count: int
    change_count: int
    at: float  # seconds since the epoch
    by: str | None = None  # the id of the API key
    note: str = ""
    bytes: int = 0  # of the state
    learner: str = ""  # JSON of the learner that the state belongs to; "" for that of the model after `change_count`


class Keeping(StrEnum):
    """What became of a snapshot to keep or to drop."""

    DONE = "done"
    THERE = "there"  # a snapshot has this id
    FULL = "full"  # the model has `MOST_KEPT` snapshots
    STALE = "stale"  # the log, its damage or the history differ from what the caller has seen
    NEEDED = "needed"  # the log has a change that needs the snapshot
    ABSENT = "absent"  # no snapshot has this id


class KeptStore(Protocol):
    """Keeps snapshots. A kept snapshot never changes, and stays until it is dropped or its model is deleted."""

    async def keep_snapshot(self, key: ModelKey, note: KeptNote, snapshot: Snapshot) -> Keeping:
        """Keep a snapshot of this log under an id: `DONE`, `THERE`, `FULL` or `STALE`.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def list_kept(self, key: ModelKey) -> Sequence[KeptNote]:
        """Return the notes of all kept snapshots, oldest first; none if the model is gone.

        Raises:
            NewerVersionError: if a newer version wrote one.
            StoreCorruptError: if one cannot be read.
        """

    async def load_kept(self, key: ModelKey, id_: str) -> Snapshot | None:
        """Return a kept snapshot; None if there is none with this id.

        Raises:
            NewerVersionError: if a newer version wrote it.
            DamagedSnapshotError: if it is damaged.
        """

    async def drop_kept(self, key: ModelKey, id_: str, digest: bytes, needed_by: int) -> Keeping:
        """Drop a kept snapshot: `DONE`, `ABSENT`, `NEEDED` or `STALE`.

        Args:
            key: the model.
            id_: the snapshot.
            digest: of the history that the caller has read.
            needed_by: the number of the last change in it that names the snapshot; 0 if none does. It is needed while
                the log has this change.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

"""The interface of the store. `service.store.redis.redis_store` implements it over the Redis protocol.

Arguments and results are values: nothing returned changes later. Every method raises `StoreUnavailableError`
if the store does not answer. Every writing method raises `StoreFullError` if the store is out of memory or
cannot write to its disk. Each method documents its other errors. After a writing method raised
`StoreUnavailableError`, its effect is unknown; every writing method may be repeated.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from service.errors import OpenPredictionsFullError
from service.store.closing_store import ClosingStore
from service.store.copies import CopyStore
from service.store.damage import Damage, DamageRecord
from service.store.feedback import Feedback as Feedback  # noqa: PLC0414  imported from here as well
from service.store.feedback import FeedbackResult as FeedbackResult  # noqa: PLC0414
from service.store.feedback import FeedbackRules as FeedbackRules  # noqa: PLC0414
from service.store.feedback import FeedbackStatus as FeedbackStatus  # noqa: PLC0414
from service.store.figures import ModelStats as ModelStats  # noqa: PLC0414  imported from here as well
from service.store.figures import PublishedStatistics as PublishedStatistics  # noqa: PLC0414  imported from here as well
from service.store.figures import StoreLoad as StoreLoad  # noqa: PLC0414  imported from here as well
from service.store.figures import StoreReadiness as StoreReadiness  # noqa: PLC0414  imported from here as well
from service.store.import_store import ImportStore
from service.store.kept_store import KeptStore
from service.store.kept_store import Snapshot as Snapshot  # noqa: PLC0414  imported from here as well
from service.store.retention_store import RetentionStore
from service.store.shadow_store import ShadowStore
from service.store.stored_models import NO_POLICIES, ListedModel, ModelKey, ModelPage, StoredModel, StoredPolicies


class LogEntry(NamedTuple):
    """Rounds that one call appended for one block of predictions. The first round of a log has number 1."""

    last_round: int  # number of the last of these rounds
    block: str
    payload: bytes  # one or more rounds
    change_count: int = 0  # changes in the log before these rounds


class ChangeEntry(NamedTuple):
    """A change of the model. It follows the first `round_count` rounds and precedes the others."""

    round_count: int
    change_count: int  # number of the change. The first change of a log has number 1
    payload: bytes  # JSON; see `service.models.changes`


class Tail(NamedTuple):
    """Log entries from some round on, oldest first, and the total numbers of rounds and changes in the log."""

    round_count: int
    entries: list[LogEntry]
    damage: int = 0  # version of the damage record
    change_count: int = 0
    changes: Sequence[ChangeEntry] = ()  # among the entries, oldest first
    digest: bytes = b""  # of the history up to all changes


class Seen(NamedTuple):
    """Rounds and changes seen, and the maximum number of unseen rounds to return.

    A log that lost its end (a fail-over, a power loss, an old backup) and then continued may have the same number of
    rounds, but different ones. The mark of the last entry distinguishes the two logs, and the digest their changes.
    """

    round_count: int
    limit: int
    last_at: bytes | None = None  # mark of the last entry (`service.store.log_entries`); None if unknown
    newer: bool = False  # whether the log may have newer rounds
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0
    digest: bytes = b""  # of the history up to these changes


class Block(NamedTuple):
    """Predictions stored together: the name of their block and its record."""

    id: str
    record: bytes


Head: TypeAlias = bytes | OpenPredictionsFullError | None
"""What became of a new block: None if it was stored, else the record already stored under its id, or why not."""


class BlockPage(NamedTuple):
    """Some blocks of a model, in no particular order, and the cursor of the next page; None on the last page."""

    blocks: list[Block]
    next_cursor: str | None


class Store(ClosingStore, RetentionStore, ImportStore, KeptStore, CopyStore, ShadowStore, Protocol):
    """Models, predictions, logs and snapshots. Each change is atomic."""

    async def create_model(
        self, key: ModelKey, definition: str, now: float, summary: str = "", policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """Store a new model; return False if the name is taken. Creating the same incarnation again returns True."""

    async def get_model(self, name: str) -> StoredModel | None:
        """Return the model with this name, or None.

        Raises:
            StoreCorruptError: if the key does not hold a valid model.
        """

    async def list_models(self, after: str, limit: int) -> ModelPage:
        """Return up to `limit` models with names after `after` ("" for the first page), unreadable ones as errors."""

    async def list_model(self, name: str) -> ListedModel | None:
        """Return the list entry of the model with this name, or None.

        Raises:
            StoreCorruptError: if the key does not hold a valid model.
        """

    async def keep_summary(self, key: ModelKey, summary: str) -> bool:
        """Store the summary of a definition that has none; return False if this incarnation is gone."""

    async def change_model(
        self, key: ModelKey, digest: bytes, change: str, summary: str, policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """Append a change to the log and to the history of a model; return False if it has another history.

        Making the same change again, as after a lost reply, returns True.

        Args:
            key: the model.
            digest: of its history before this change.
            change: JSON without newlines.
            summary: the summary of the changed definition.
            policies: its policies that the store follows without a worker.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            SnapshotNotFoundError: if the change names a kept snapshot that the model does not have.
            StoreCorruptError: if its counters or its log are damaged.
        """

    async def delete_model(self, name: str) -> bool:
        """Delete a model, even a damaged one; its predictions expire later. Return False if it does not exist."""

    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[Head] | Tail:
        """Store blocks of predictions, except those with an id that is in use.

        Args:
            key: the model.
            blocks: the blocks to store.
            keep_seconds: how long to keep them.
            seen: the rounds and changes that the predictions take into account. These must be the whole log or,
                with `newer`, its beginning. None skips the check.

        Returns:
            If the log does not match `seen`, the tail after the rounds seen, preceded by the entry of the last of
            them if the log has it; nothing is stored. Otherwise, for each block, None if it was stored, the record
            already stored under its id, without bodies, or the error if the bytes of the model's open predictions
            would exceed their maximum.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if a newer version wrote an entry of the tail.
        """

    async def add_feedback(
        self, key: ModelKey, feedback: Sequence[Feedback], rules: FeedbackRules, now: float
    ) -> list[FeedbackResult]:
        """Join feedback with its predictions, and append each new round to the log exactly once.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            OtherHistoryError: if its history does not begin with the one by which truths are encoded; nothing changes.
        """

    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        """Return the entries that contain the first `limit` remaining rounds after round `after`.

        Changes between these rounds are included. The first entry may begin earlier, and the last may end later.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if an entry has a type, version or field that this version does not support.
        """

    async def load_snapshot(self, key: ModelKey) -> Snapshot | None:
        """Return the latest snapshot, or None.

        Raises:
            NewerVersionError: if a newer version wrote it.
            DamagedSnapshotError: if it is damaged.
        """

    async def save_snapshot(self, key: ModelKey, snapshot: Snapshot, retain_rounds: int) -> int:
        """Store a snapshot of this log if it is newer than the stored one, and trim old rounds that it includes.

        A stored snapshot of a newer version is never replaced, unless it is recorded as damaged.

        Returns:
            The number of rounds in the snapshot that is now stored.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def publish_statistics(self, key: ModelKey, published: PublishedStatistics) -> int:
        """Store the statistics if they count more rounds than the stored ones, and no newer version wrote those.

        Returns:
            The number of rounds in the statistics that are now stored.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def record_damage(self, key: ModelKey, found: Sequence[Damage]) -> bool:
        """Record unreadable rounds, so that every worker leaves out the same ones.

        Returns:
            Whether they are on record. If not, the snapshot includes them: start from it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def mark_snapshot(self, key: ModelKey, rounds: int, reason: str) -> None:
        """Record that the snapshot of `rounds` rounds cannot be read, so that any other may replace it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_damage(self, key: ModelKey) -> DamageRecord:
        """Return the damage record of a model."""

    async def list_damaged(self, limit: int) -> list[str]:
        """Return the first names of models with recorded damage, sorted."""

    async def read_block(self, key: ModelKey, id_: str) -> bytes | None:
        """Return the record of a block of predictions, with bodies; None if there is none with this id."""

    async def scan_blocks(self, key: ModelKey, cursor: str) -> BlockPage:
        """Look at some keys of the store; return those that are a model's blocks of predictions, often none.

        All pages together have every block that exists throughout the scan, some of them more than once.

        Args:
            key: the model.
            cursor: the `next_cursor` of the previous page; "" for the first page.
        """

    async def read_model_stats(self, name: str) -> ModelStats | None:
        """Return a model's counters and statistics, or None, at a cost independent of its history."""

    async def list_names(self, limit: int) -> list[str]:
        """Return the first names of models, sorted. Some of the models may be gone."""

    async def read_load(self) -> StoreLoad:
        """Return the memory use of the store."""

    async def check(self) -> StoreReadiness:
        """Write to each server of the store; return the store's readiness.

        Raises:
            StoreUnavailableError: if a write is refused for any reason.
        """

    async def close(self) -> None:
        """Close all connections."""

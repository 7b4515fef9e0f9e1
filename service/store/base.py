"""The interface of the store. `service.store.redis.redis_store` implements it over the Redis protocol.

Arguments and results are values: nothing returned changes later. Every method raises `StoreUnavailableError`
if the store does not answer. Every writing method raises `StoreFullError` if the store is out of memory or
cannot write to its disk. Each method documents its other errors. After a writing method raised
`StoreUnavailableError`, its effect is unknown; every writing method may be repeated.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from service.errors import OpenPredictionsFullError
from service.prediction_id import PredictionId
from service.store.stored_models import NO_POLICIES, ListedModel, ModelKey, ModelPage, StoredModel, StoredPolicies
from service.store.values import (
    Damage,
    DamageRecord,
    Feedback,
    FeedbackResult,
    FeedbackRules,
    FeedbackStatus,
    ModelStats,
    PublishedStatistics,
    StoreLoad,
    StoreReadiness,
)

MOST_SOURCES = 100
"""Maximum sources per model whose positions are kept: those that were used last."""


class ImportBlock(NamedTuple):
    """Predictions to import together, and their outcomes."""

    id: str
    record: bytes
    outcomes: bytes  # for each prediction: the reward as a float64, the encoded truth (every bit 1 if unknown)


class ImportPart(NamedTuple):
    """Consecutive rounds of a source, to append to the log together or not at all."""

    source: str
    place: int  # the number of rounds before them in the source
    size: int  # the number of rounds
    blocks: Sequence[ImportBlock]
    digest: bytes  # of the history that the records take into account


class Imported(NamedTuple):
    """The result of an import."""

    position: int  # the number of rounds imported from the source so far
    round_count: int  # total rounds in the log
    change_count: int  # total changes in the log
    appended: bool  # whether this call appended the rounds


class ImportedSource(NamedTuple):
    """A source of imported rounds."""

    source: str
    position: int
    at: float  # when it was used last, in seconds since the epoch


class ImportStore(Protocol):
    """Imports rounds, each exactly once. Each change is atomic."""

    async def import_rounds(self, key: ModelKey, part: ImportPart, now: float) -> Imported:
        """Append rounds to the log if exactly the rounds before them have been imported from their source.

        Otherwise, or if the model has changed, nothing is appended. Repeating a call appends nothing further.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if its counters, its log or the position are damaged.
        """

    async def read_imports(self, key: ModelKey) -> list[ImportedSource]:
        """Return the sources of imported rounds, the last used one first.

        Raises:
            StoreCorruptError: if a position is damaged.
        """


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


class Counts(NamedTuple):
    """What a model has counted in its rounds."""

    correct: int = 0
    partial: float = 0.0  # sum of the rewards between 0 and 1
    expired: int = 0


class ModelCopy(NamedTuple):
    """A model to create with the state of another one."""

    definition: str  # JSON, before any change
    history: tuple[str, ...]  # every change as JSON, oldest first; the last one says where the model comes from
    summary: str
    snapshot: Snapshot  # after all of these changes
    counts: Counts
    policies: StoredPolicies = NO_POLICIES
    imports: tuple[ImportedSource, ...] = ()  # where the imports of the rounds in the state are


class CopyStore(Protocol):
    """Creates models with a state."""

    async def create_copy(self, key: ModelKey, copy: ModelCopy, now: float) -> bool:
        """Store a new model whose log begins after the rounds of a snapshot, with the last change of its history.

        Nothing is visible until all of it is stored.

        Returns:
            False if the name is taken. Creating the same incarnation again returns True.
        """


class Closed(NamedTuple):
    """The result of closing expired predictions of a model."""

    newest_round: int  # the number of the last round appended; 0 if there was none
    more: bool  # whether expired predictions remain


class ClosingStore(Protocol):
    """Activates predictions and closes expired ones. Each change is atomic."""

    async def activate(self, prediction: PredictionId, incarnation: str, now: float) -> FeedbackStatus:
        """Let a prediction take feedback.

        Returns:
            `recorded`, `duplicate` if it took feedback before, `expired`, `unknown`, `broken` or `newer-version`.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def watch_closing(self, models: Sequence[ModelKey]) -> None:
        """List models among those that close expired predictions. Listing them again changes nothing."""

    async def claim_due(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models whose predictions may have expired, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def close_expired(self, key: ModelKey, offset: float, most_blocks: int) -> Closed:
        """Close expired predictions of one model: by the feedback that waits, or by the model's rule.

        Each makes one round at most. The clock is that of the store, plus `offset` seconds.

        Args:
            key: the model. If it is gone, it is no longer listed.
            offset: seconds to add to the clock of the store.
            most_blocks: after this number of blocks, the call returns. The model is then still due.

        Raises:
            StoreCorruptError: if the model is damaged.
        """

    async def put_off_closing(self, key: ModelKey, offset: float, seconds: float) -> None:
        """Let a model be due after some seconds, for example because it cannot be read."""


class RetentionStore(Protocol):
    """Trims logs of models with `retain_seconds`. Each change is atomic."""

    async def watch_retention(self, models: Sequence[ModelKey]) -> None:
        """List models among those with `retain_seconds`. Listing them again changes nothing."""

    async def claim_old(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models that may have rounds to trim, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        """Trim rounds older than the model's `retain_seconds`, except the last ones of the snapshot and of the log.

        Returns:
            Whether rounds that are too old remain because the snapshot does not include them.
        """


KEPT_FOR_SHADOWS = 100_000
"""Most rounds that a log keeps for shadows that have not folded them. A shadow that lags more begins again."""


class StoredShadow(NamedTuple):
    """A shadow as stored."""

    name: str
    id: str  # differs whenever its learner is replaced
    slot: int  # names the key of its snapshot
    text: str  # JSON: see `service.shadows.definition`
    since_rounds: int  # its fold begins after these rounds of the log,
    since_changes: int  # and after these changes
    rounds: int | None  # in its snapshot; None without one
    restarts: int = 0  # how often it had to begin again

    @property
    def folded(self) -> int:
        """The number of rounds of the log up to which it has folded, in its snapshot."""
        return self.since_rounds if self.rounds is None else self.rounds


class ShadowStore(Protocol):
    """The shadows of models. Each change is atomic."""

    async def put_shadow(self, key: ModelKey, name: str, id_: str, text: str) -> bool:
        """Give a model a shadow, or an existing shadow another learner; return False if it has too many others.

        Its fold begins with the oldest round of the log. Repeating the call with the same id changes nothing.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_shadows(self, key: ModelKey) -> list[StoredShadow]:
        """Return the shadows of a model in the order of their names.

        Raises:
            StoreCorruptError: if they cannot be read.
        """

    async def drop_shadow(self, key: ModelKey, name: str) -> bool:
        """Remove a shadow; return whether it existed.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def load_shadow(self, key: ModelKey, shadow: StoredShadow) -> Snapshot | None:
        """Return the snapshot of a shadow, or None; raise as `Store.load_snapshot` does."""

    async def read_comparison(self, key: ModelKey, shadow: StoredShadow) -> bytes:
        """Return the comparison in the snapshot of a shadow, without its state; b"" without a snapshot."""

    async def save_shadow(self, key: ModelKey, shadow: StoredShadow, snapshot: Snapshot) -> int | None:
        """Store a snapshot of a shadow if it is newer than the stored one; its statistics are the comparison.

        Returns:
            The number of rounds in the snapshot that is now stored; None if the shadow is gone or has another learner.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def hold_rounds(self, key: ModelKey, rounds: int, change_count: int) -> None:
        """Keep the rounds after the first `rounds` in the log until a snapshot has seen `change_count` changes.

        At most `KEPT_FOR_SHADOWS` rounds are kept. A later call replaces an earlier one.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def restart_shadow(self, key: ModelKey, shadow: StoredShadow) -> None:
        """Let a shadow begin again with the oldest round of the log, unless its snapshot has changed since.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def watch_shadows(self, models: Sequence[ModelKey]) -> None:
        """List models among those with shadows. Listing them again changes nothing."""

    async def claim_shadows(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models whose shadows are due, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def put_off_shadows(self, key: ModelKey, offset: float, seconds: float) -> None:
        """Let the shadows of a model be due in some seconds."""

    async def unwatch_shadows(self, key: ModelKey) -> None:
        """Undo `watch_shadows` for one model, which has no shadows."""


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

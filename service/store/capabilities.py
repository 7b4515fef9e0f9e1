"""The store's interface, by capability. `service.store.redis.redis_store` implements it over the Redis protocol.

Arguments and results are values: what a method has returned never changes. Every method raises `StoreUnavailableError`
if the store does not answer. Every writing method raises `StoreFullError` if the store is out of memory or cannot write
to its disk. Each method documents its other errors. A writing method that raises `StoreUnavailableError` may or may not
have had its effect. Every call may be repeated, unless its method says otherwise.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from service.prediction_id import PredictionId
from service.store.stored_models import (
    NO_POLICIES,
    ListedModel,
    ModelKey,
    StoredModel,
    StoredPolicies,
    UnreadModel,
    Version,
)
from service.store.values import (
    Block,
    BlockPage,
    Closed,
    Damage,
    DamageRecord,
    Due,
    Feedback,
    FeedbackResult,
    FeedbackRules,
    FeedbackStatus,
    Head,
    ImportBatch,
    Imported,
    ImportedSource,
    Keeping,
    KeptNote,
    ModelCopy,
    ModelMemory,
    ModelStats,
    NameQuota,
    PublishedStatistics,
    Seen,
    Snapshot,
    StoredShadow,
    StoreLoad,
    StoreReadiness,
    Tail,
)


class ModelTable(Protocol):
    """Creates, reads, changes and deletes models."""

    async def reserve_name(self, name: str, quota: NameQuota) -> None:
        """List the name of a model that is about to be created; raise `TooManyModelsError` if there are too many."""

    async def create_model(
        self, key: ModelKey, definition: str, now: float, summary: str = "", policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """Store a new model; return False if the name is taken. Creating the same incarnation again returns True."""

    async def create_copy(self, key: ModelKey, copy: ModelCopy, now: float) -> bool:
        """Store a new model with the state in a snapshot. Its log begins with the last change of its history.

        Return False if another incarnation has the name. Nothing is visible until everything is stored.
        """

    async def get_model(self, name: str) -> StoredModel | None:
        """Return the model with this name, or None.

        Raises:
            StoreCorruptError: if the stored model is invalid.
        """

    async def list_models(self, names: Sequence[str]) -> list[ListedModel | UnreadModel]:
        """Return the list entries of those of these models that exist, in order; unreadable ones as `UnreadModel`.

        Those on a server that does not answer are unreadable, unless all of them are.
        """

    async def list_model(self, name: str) -> ListedModel | None:
        """Return the list entry of the model with this name, or None.

        Raises:
            StoreCorruptError: if the stored model is invalid.
        """

    async def list_names(self, limit: int, prefix: str = "") -> list[str]:
        """Return the first `limit` names of models with a prefix, all if it is -1, sorted. Some models may be gone."""

    async def sum_open_bytes(self, names: Sequence[str]) -> int:
        """Sum the bytes that open predictions take in some models. A missing or damaged model counts as 0."""

    async def list_flags(self, after: str, limit: int) -> list[str]:
        """Return the first `limit` names after `after` of the models with `ofrep.bulk`, sorted.

        Some of the models may be gone, or no longer have it.
        """

    async def list_busiest(self, limit: int) -> list[str]:
        """Return up to `limit` names of models, the busiest first, then others by name. Some models may be gone."""

    async def read_traffic(self) -> dict[str, float]:
        """Return the traffic of the busiest models, by name: the logarithm of the weight of their predictions."""

    async def count_traffic(self, predictions: Mapping[str, int]) -> None:
        """Count new predictions as traffic of their models: `predictions` has their number, at least 1, by model name.

        Their weight halves every day. A repeated call counts them again. Only the 10,000 busiest models are ranked.
        """

    async def keep_summary(self, key: ModelKey, summary: str) -> bool:
        """Replace a model's missing or invalid summary; return False if this incarnation of the model is gone."""

    async def change_model(
        self, key: ModelKey, digest: bytes, change: str, summary: str, policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        """Append a change to the log and to the history of a model; return False if the history is not as expected.

        Repeating the same change, as after a lost reply, returns True.

        Args:
            key: the model.
            digest: the digest of the expected history, without this change.
            change: JSON without newlines.
            summary: the summary of the changed model.
            policies: those policies of the changed model that the store applies itself.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            SnapshotNotFoundError: if the change names a kept snapshot that the model does not have.
            StoreCorruptError: if the model's counters or its log are damaged.
        """

    async def delete_model(self, name: str, version: Version | None = None) -> bool:
        """Delete a model, even a damaged one, and list it for `erase`, which erases its predictions.

        Return False if it does not exist, or if a version is given and it is not the current one.
        """

    async def sum_deleted_bytes(self, is_summed: Callable[[str], bool]) -> int:
        """Sum the bytes that open predictions of deleted models take until they are erased; choose models by name."""

    async def claim_deleted(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Claim models of the list `Due.ERASURE`, as `claim` does; return those that are gone.

        The others remain claimed: their deletion may be about to happen, and then makes them due again.
        """

    async def erase(self, deleted: Collection[ModelKey], cursor: str) -> str | None:
        """Scan some keys of the store, and erase those that deleted models have left.

        An existing model keeps its keys: the store may have lost its deletion.

        Args:
            deleted: models that `claim_deleted` returned. After the last page, they are no longer on the list.
            cursor: the result of the previous call; "" at first.

        Returns:
            The next cursor, or None after the last page.
        """


class Predictions(Protocol):
    """Stores predictions, and makes them rounds when their feedback arrives or their window ends."""

    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[Head] | Tail:
        """Store blocks of predictions, except those whose id is in use.

        Args:
            key: the model.
            blocks: the blocks to store.
            keep_seconds: how long to keep them.
            seen: the rounds and changes that the predictions take into account. The log must have no others, but it
                may have newer rounds if `allow_newer` is set. None skips the check.

        Returns:
            If the log does not match `seen`, nothing is stored, and the result is the tail after the last entry seen,
            preceded by that entry if the log has it. Otherwise, it is a list with an item for each block: None if the
            block was stored; the record already stored under its id, cut off before the bodies (`layout`); or an error
            if the bytes of the model's open predictions would have exceeded their maximum.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if a newer version wrote an entry of the tail.
            StoreCorruptError: if the model's counters are damaged.
        """

    async def add_feedback(
        self, key: ModelKey, feedback: Sequence[Feedback], rules: FeedbackRules, now: float
    ) -> list[FeedbackResult]:
        """Join feedback with its predictions, and append each new round to the log exactly once; return each result.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            OtherHistoryError: if the model's history does not begin with that in `rules`; nothing changes.
            StoreCorruptError: if the model's counters, its log or its rule for closing predictions are damaged.
        """

    async def activate(self, prediction: PredictionId, incarnation: str, now: float) -> FeedbackStatus:
        """Allow feedback for a prediction that was stored as inactive: its feedback is refused until then.

        Returns:
            `recorded`; `duplicate` if feedback was allowed before; `expired`, `unknown`, `broken` or `newer-version`.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def close_expired(self, key: ModelKey, offset: float, most_blocks: int) -> Closed:
        """Close expired predictions of one model.

        Each becomes at most one round: with the feedback that waits for the end of its window or, without any, with the
        outcome that the model's rule for closing may name.

        Args:
            key: the model. If it is gone, it is removed from the list of due models.
            offset: seconds to add to the store's clock.
            most_blocks: maximum blocks to close. If more blocks have expired, the model remains due.

        Raises:
            StoreCorruptError: if the model is damaged.
        """

    async def read_block(self, key: ModelKey, id_: str) -> bytes | None:
        """Return the stored record of a block of predictions; None if no block has this id."""

    async def scan_blocks(self, key: ModelKey, cursor: str) -> BlockPage:
        """Scan some keys of the store; return the model's blocks of predictions among them, often none.

        All pages together contain every block that exists throughout the scan, but may repeat some of them.

        Args:
            key: the model.
            cursor: the `next_cursor` of the previous page; "" for the first page.
        """


class Log(Protocol):
    """Reads, extends and trims the logs of rounds."""

    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        """Return the entries that contain the first `limit` rounds after round `after` that the log still has.

        Changes between them are included. The first entry may begin before these rounds, and the last one may end after
        them. If the entries are large, only the first ones are returned.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if an entry has a type, version or field that this version does not support.
        """

    async def import_rounds(self, key: ModelKey, part: ImportBatch, now: float) -> Imported:
        """Append rounds to the log if exactly the rounds before them have been imported from their source.

        Otherwise, or if the model has changed, nothing is appended. A repeated call appends nothing more.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if the model's counters, its log or the stored position are damaged.
        """

    async def read_imports(self, key: ModelKey) -> list[ImportedSource]:
        """Return the sources of imported rounds, the most recently used first.

        Raises:
            StoreCorruptError: if a position is damaged.
        """

    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        """Trim rounds older than the model's `retain_seconds`. The snapshot's last round and all later rounds stay.

        `offset` is in seconds, and is added to the store's clock.

        Returns:
            Whether rounds that are too old must stay until a newer snapshot includes them or, if a promotion needs
            them, includes the promotion.
        """


class Snapshots(Protocol):
    """Stores the latest snapshot and the published statistics of each model."""

    async def load_snapshot(self, key: ModelKey) -> Snapshot | None:
        """Return the latest snapshot, or None.

        Raises:
            NewerVersionError: if a newer version wrote it.
            DamagedSnapshotError: if it is damaged.
        """

    async def save_snapshot(self, key: ModelKey, snapshot: Snapshot, retain_rounds: int) -> int:
        """Store a snapshot if it is newer than the stored one, fits the log, and accounts for all recorded damage.

        Then trim the rounds that it includes, except the last `retain_rounds` and those that shadows need. A stored
        snapshot of a newer version is never replaced, unless it is recorded as damaged.

        Returns:
            The number of rounds in the snapshot that is now stored.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def publish_statistics(self, key: ModelKey, published: PublishedStatistics) -> int:
        """Store statistics if they count more rounds than the stored ones, and if no newer version wrote those.

        Returns:
            The number of rounds in the statistics that are now stored.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """


class KeptSnapshots(Protocol):
    """Keeps snapshots. A kept snapshot never changes, and stays until it is dropped or its model is deleted."""

    async def keep_snapshot(self, key: ModelKey, note: KeptNote, snapshot: Snapshot) -> Keeping:
        """Keep a snapshot of this model under the id in its note; return `DONE`, `THERE`, `FULL` or `STALE`.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def list_kept(self, key: ModelKey) -> Sequence[KeptNote]:
        """Return the notes of all kept snapshots, oldest first; none if the model is gone.

        Raises:
            NewerVersionError: if a newer version wrote one of them.
            StoreCorruptError: if one of them cannot be read.
        """

    async def load_kept(self, key: ModelKey, id_: str) -> Snapshot | None:
        """Return a kept snapshot; None if there is none with this id.

        Raises:
            NewerVersionError: if a newer version wrote it.
            DamagedSnapshotError: if it is damaged.
        """

    async def drop_kept(self, key: ModelKey, id_: str, digest: bytes, needed_by: int) -> Keeping:
        """Drop a kept snapshot; return `DONE`, `ABSENT`, `NEEDED` or `STALE`.

        Args:
            key: the model.
            id_: the snapshot.
            digest: the digest of the history that the caller has read.
            needed_by: the number of the last change in this history that continues from the snapshot; 0 if none does.
                The snapshot is needed as long as the log has this change.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """


class DamageRecords(Protocol):
    """Records unreadable data, so that every worker skips the same rounds."""

    async def record_damage(self, key: ModelKey, found: Sequence[Damage]) -> bool:
        """Record unreadable rounds; return False, with nothing recorded, if the snapshot includes some of them.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def mark_snapshot(self, key: ModelKey, rounds: int, reason: str) -> None:
        """If the stored snapshot has `rounds` rounds, record that it cannot be read: any other may then replace it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_damage(self, key: ModelKey) -> DamageRecord:
        """Return the damage record of a model."""

    async def has_damage(self) -> bool:
        """Check whether damage is recorded for any model."""


class ShadowTable(Protocol):
    """Stores the shadows of models."""

    async def put_shadow(self, key: ModelKey, name: str, id_: str, text: str) -> bool:
        """Add a shadow to a model, or replace a shadow's learner; return False if all slots have other shadows.

        Its fold begins with the oldest round of the log. Repeating the call with the same id changes nothing.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_shadows(self, key: ModelKey) -> list[StoredShadow]:
        """Return the shadows of a model, sorted by name.

        Raises:
            StoreCorruptError: if they cannot be read.
        """

    async def drop_shadow(self, key: ModelKey, name: str) -> bool:
        """Remove a shadow; return False if there is none with this name.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def load_shadow(self, key: ModelKey, shadow: StoredShadow) -> Snapshot | None:
        """Return the snapshot of a shadow, or None; raise as `Snapshots.load_snapshot` does."""

    async def read_comparison(self, key: ModelKey, shadow: StoredShadow) -> bytes:
        """Return the comparison in the snapshot of a shadow, without reading the state; b"" if it has no snapshot."""

    async def save_shadow(self, key: ModelKey, shadow: StoredShadow, snapshot: Snapshot) -> int | None:
        """Store a snapshot of a shadow if it is newer than the stored one. Its `statistics` are the comparison.

        Returns:
            The number of rounds in the snapshot that is now stored; None if the shadow is gone or has another learner.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def hold_rounds(self, key: ModelKey, rounds: int, change_count: int) -> None:
        """Keep all rounds but the first `rounds` in the log until the model's snapshot includes `change_count` changes.

        Storing a snapshot trims all but the last `KEPT_FOR_SHADOWS` of them. A later call replaces an earlier one.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def restart_shadow(self, key: ModelKey, shadow: StoredShadow) -> None:
        """Restart a shadow at the oldest round of the log, without its snapshot. Do nothing if `shadow` is outdated.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """


class DueLists(Protocol):
    """Lists the models that need background work, and reserves each for one worker at a time."""

    async def watch(self, due: Due, models: Sequence[ModelKey]) -> None:
        """Add models to a list, due immediately. Models that are already on the list remain as they are."""

    async def unwatch(self, due: Due, key: ModelKey) -> None:
        """Remove a model from a list."""

    async def claim(self, due: Due, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Reserve up to `limit` due models of a list, and return them; they are due again after `seconds` seconds.

        The clock is the store's, plus `offset` seconds.
        """

    async def put_off(self, due: Due, key: ModelKey, offset: float, seconds: float) -> None:
        """Make a model due again in `seconds` seconds, if it is still on the list; `offset` is as for `claim`."""


class Monitoring(Protocol):
    """Reads figures about models and servers."""

    async def read_model_stats(self, name: str) -> ModelStats | None:
        """Return a model's counters and published statistics, or None. The cost does not depend on the log's length.

        Raises:
            StoreCorruptError: if the stored model is invalid.
        """

    async def measure(self, name: str) -> ModelMemory | None:
        """Return the memory that a model uses, estimated from samples of its values; None if it does not exist.

        The server's user needs the permission `memory|usage`.

        Raises:
            StoreCorruptError: if the model cannot be read.
        """

    async def read_load(self) -> StoreLoad:
        """Return the memory use of the store, its free disk space and its number of models."""

    async def copy(self, receive: Callable[[bytes], object]) -> None:
        """Pass all data of the server, as of one moment, to `receive`, in consecutive parts of an RDB file.

        The server's user needs the permissions `sync` and `replconf`.

        Raises:
            NotImplementedError: if the store is a cluster, because each server would have its own file.
        """

    async def note_backup(self, at: float) -> None:
        """Store when the latest whole backup began, in seconds since the epoch."""

    async def check(self) -> StoreReadiness:
        """Test a write on each server of the store; return the store's readiness.

        Raises:
            StoreUnavailableError: if the write is refused for any reason. A store at its memory limit accepts it, as it
                accepts feedback.
        """


class Store(
    ModelTable, Predictions, Log, Snapshots, KeptSnapshots, DamageRecords, ShadowTable, DueLists, Monitoring, Protocol
):
    """The whole store. Each change is atomic."""

    async def close(self) -> None:
        """Close all connections."""

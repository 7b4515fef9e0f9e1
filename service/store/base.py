"""The interface of the store. `service.store.redis.redis_store` implements it over the Redis protocol.

Arguments and results are values: nothing returned changes later. Every method raises `StoreUnavailableError`
if the store does not answer. Every writing method raises `StoreFullError` if the store is out of memory.
Each method documents its other errors. After a writing method raised `StoreUnavailableError`, its effect is
unknown; every writing method may be repeated.
"""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from service.prediction_id import PredictionId
from service.store.damage import Damage, DamageRecord
from service.store.records.layout import VERSION
from service.store.records.outcomes import Outcome
from service.store.records.shapes import RecordShape
from service.store.stored_models import ListedModel, ModelKey, ModelPage, StoredModel


class Snapshot(NamedTuple):
    """The state after the first rounds and changes of the log, and the statistics of these rounds."""

    round_count: int
    state: bytes | memoryview
    last_at: bytes | None = None  # moment of the last round, as stored in its entry; None if unknown
    statistics: bytes = b""
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0


class LogEntry(NamedTuple):
    """Rounds that one call appended for one block of predictions. The first round of a log has number 1."""

    last_round: int  # number of the last of these rounds
    block: str
    payload: bytes  # one or more rounds
    version: int = VERSION  # of the rounds' layout


class Tail(NamedTuple):
    """Log entries from some round on, oldest first, and the total numbers of rounds and changes in the log."""

    round_count: int
    entries: list[LogEntry]
    damage: int = 0  # version of the damage record
    change_count: int = 0


class Seen(NamedTuple):
    """Rounds and changes seen, and the maximum number of unseen rounds to return.

    A log that lost its end (a fail-over, a power loss, an old backup) and then continued may have the same number of
    rounds, but different ones. The moment of the last round distinguishes the two logs.
    """

    round_count: int
    limit: int
    last_at: bytes | None = None  # moment of the last round, as stored in its entry; None if unknown
    newer: bool = False  # whether the log may have newer rounds
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0


class Block(NamedTuple):
    """Predictions stored together: the name of their block and its record."""

    id: str
    record: bytes


class Feedback(NamedTuple):
    """Feedback to join with its prediction. It has `correct`, `truth`, or both."""

    prediction_id: PredictionId
    correct: bool | None
    truth: bytes | None  # same length as the answer


class FeedbackStatus(StrEnum):
    """The result of one feedback."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"  # a different outcome was recorded first
    INCONSISTENT = "inconsistent"  # `correct` contradicts the truth
    LABEL_NEEDED = "label-needed"  # the learner needs the truth, which is unknown
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    BROKEN = "broken"  # the record of the prediction is damaged
    NEWER = "newer-version"  # a newer version wrote the record of the prediction


class FeedbackResult(NamedTuple):
    """The status, and the outcome on record; None unless `recorded`, `duplicate` or `conflict`."""

    status: FeedbackStatus
    outcome: Outcome | None


class FeedbackRules(NamedTuple):
    """A model's rules for accepting feedback."""

    accept_late: bool
    label_needed: bool
    shape: RecordShape  # of its version 3 records


class PublishedStatistics(NamedTuple):
    """Statistics of the first rounds of a log, with the time slots they refer to."""

    round_count: int
    statistics: bytes
    slot: int  # current time slot
    oldest_slot: int  # oldest slot that can contain open predictions
    version: int  # of the statistics
    warnings: str = "[]"  # JSON list: limits that the learner's state has reached


class ModelStats(NamedTuple):
    """A model's counters and published statistics."""

    name: str
    round_count: int
    predictions: int
    correct: int
    refused: dict[FeedbackStatus, int]  # number of feedback items by status, except `recorded`
    snapshot_rounds: int
    snapshot_at: float | None  # seconds since the epoch; None without a snapshot
    statistics_rounds: int
    statistics: bytes  # empty if none were published
    predictions_by: dict[int, int]  # total predictions made by the end of each time slot
    damaged: int = 0  # rounds that cannot be read


class StoreLoad(NamedTuple):
    """Memory use of a store; of several servers, the fullest one."""

    memory: int  # bytes used
    memory_limit: int  # bytes; the machine's memory if the store has no limit
    models: int  # number of listed models


class StoreReadiness(NamedTuple):
    """Version, durability and warnings of a store, for its operator."""

    version: str
    persistence: str  # what an acknowledged write survives, in one sentence
    warnings: list[str]


class Store(Protocol):
    """Models, predictions, logs and snapshots. Each change is atomic."""

    async def create_model(self, key: ModelKey, definition: str, now: float, summary: str = "") -> bool:
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

    async def delete_model(self, name: str) -> bool:
        """Delete a model, even a damaged one; its predictions expire later. Return False if it does not exist."""

    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[bytes | None] | Tail:
        """Store blocks of predictions, except those with an id that is in use.

        Args:
            key: the model.
            blocks: the blocks to store.
            keep_seconds: how long to keep them.
            seen: the rounds and changes that the predictions take into account. These must be the whole log or,
                with `newer`, its beginning. None skips the check.

        Returns:
            If the log does not match `seen`, the tail after the rounds seen, preceded by the entry of the last of
            them if the log has it; nothing is stored. Otherwise, for each block, None if it was stored, or the
            record already stored under its id, without bodies.

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

    def scan_blocks(self, key: ModelKey) -> AsyncIterator[Block]:
        """Scan the store for a model's blocks of predictions; yield them in no particular order."""

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

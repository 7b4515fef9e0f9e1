"""What the service asks of a store. `service.store.redis.redis_store` answers it over the Redis protocol.

Arguments and results are values: nothing returned changes later. Every method raises
`StoreUnavailableError` when the store gives no answer, and every writing one `StoreFullError` when the store
has no memory left; what else is raised is said with the method. After a writing method raised
`StoreUnavailableError` its effect is unknown; all of them may be repeated.
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
    last_at: bytes | None = None  # when the last of them came, as its entry has it; None where it is not known
    statistics: bytes = b""
    damage: int = 0  # version of the record of damage that was heeded
    change_count: int = 0


class LogEntry(NamedTuple):
    """Rounds that one call made of predictions in one block; the first round of a log has number 1."""

    last_round: int  # of the last of them
    block: str
    payload: bytes  # one or more
    version: int = VERSION  # of the layout of the rounds


class Tail(NamedTuple):
    """Entries of the log from some round on, oldest first, and how many rounds and changes the log had in all."""

    round_count: int
    entries: list[LogEntry]
    damage: int = 0  # version of the record of damage
    change_count: int = 0


class Seen(NamedTuple):
    """How many rounds and changes were taken into account, and how many rounds that were not to return at most.

    A log that was lost in part (a fail-over, a loss of power, an old backup) and went on may have as many rounds
    and not the same: the moment of the last one distinguishes them.
    """

    round_count: int
    limit: int
    last_at: bytes | None = None  # when the last of them came, as its entry has it; None where it is not known
    newer: bool = False  # whether there may be newer ones
    damage: int = 0  # version of the record of damage that was heeded
    change_count: int = 0


class Block(NamedTuple):
    """Predictions to be stored together: the name of their block and its record."""

    id: str
    record: bytes


class Feedback(NamedTuple):
    """Feedback to be joined with its prediction: at least one of the two last is given."""

    prediction_id: PredictionId
    correct: bool | None
    truth: bytes | None  # as long as the answer


class FeedbackStatus(StrEnum):
    """What became of one feedback."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"  # a different outcome was recorded first
    INCONSISTENT = "inconsistent"  # `correct` contradicts the truth
    LABEL_NEEDED = "label-needed"  # the learner needs the truth, and it is not known
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    BROKEN = "broken"  # the record of the prediction is damaged
    NEWER = "newer-version"  # which wrote the record of the prediction


class FeedbackResult(NamedTuple):
    """Status; with `recorded`, `duplicate` and `conflict`, the outcome on record, else None."""

    status: FeedbackStatus
    outcome: Outcome | None


class FeedbackRules(NamedTuple):
    """The model's rules by which feedback is judged."""

    accept_late: bool
    label_needed: bool
    shape: RecordShape  # of its records of version 3


class PublishedStatistics(NamedTuple):
    """Statistics of the first rounds, to be kept for those who watch, and the slots of their clock."""

    round_count: int
    statistics: bytes
    slot: int
    oldest_slot: int
    version: int  # of the statistics


class ModelStats(NamedTuple):
    """What the store knows about the course of a model."""

    name: str
    round_count: int
    predictions: int
    correct: int
    refused: dict[FeedbackStatus, int]  # how often feedback was answered otherwise than `recorded`
    snapshot_rounds: int
    snapshot_at: float | None  # seconds since the epoch; None where there is no snapshot
    statistics_rounds: int
    statistics: bytes  # empty where none was published
    predictions_by: dict[int, int]  # by slot of time: how many there were by its end
    damaged: int = 0  # rounds that cannot be read


class StoreLoad(NamedTuple):
    """How full a store is; of several servers, the fullest one."""

    memory: int  # bytes
    memory_limit: int  # bytes; the machine's where the store has none
    models: int  # listed


class StoreReadiness(NamedTuple):
    """What an operator wants to know of a store."""

    version: str
    persistence: str  # what an acknowledged write survives, in one sentence
    warnings: list[str]


class Store(Protocol):
    """Models, predictions, logs and snapshots, each change atomic."""

    async def create_model(self, key: ModelKey, definition: str, now: float, summary: str = "") -> bool:
        """Stores a new model; False if the name is taken. Creating the same incarnation twice is one creation."""

    async def get_model(self, name: str) -> StoredModel | None:
        """The model of that name.

        Raises:
            StoreCorruptError: if the key holds no model.
        """

    async def list_models(self, after: str, limit: int) -> ModelPage:
        """Up to `limit` models whose names follow `after`, which is "" for the first page; each fails alone."""

    async def list_model(self, name: str) -> ListedModel | None:
        """The model of that name, as a list has it.

        Raises:
            StoreCorruptError: if the key holds no model.
        """

    async def keep_summary(self, key: ModelKey, summary: str) -> bool:
        """Keeps the summary of a definition that was stored without; False if this incarnation is gone."""

    async def delete_model(self, name: str) -> bool:
        """Deletes the model, damaged or not, its log and snapshot; False if there is none. Its predictions expire."""

    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[bytes | None] | Tail:
        """Stores blocks of predictions for so long, each unless its id is in use.

        Args:
            key: the model.
            blocks: what to store.
            keep_seconds: how long.
            seen: the rounds and changes that the predictions take into account, where they must be all there are,
                or the first of them; None where that does not matter.

        Returns:
            Where others were seen than there are, the tail after them, preceded by the entry of the last that
            was seen if the log has it: then nothing was stored. Else, for each block, None if it was stored, or
            the record that was there, without its bodies.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if an entry of that tail has what this version does not know.
        """

    async def add_feedback(
        self, key: ModelKey, feedback: Sequence[Feedback], rules: FeedbackRules, now: float
    ) -> list[FeedbackResult]:
        """Joins feedback with its predictions and appends each new round to the log, once.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        """The entries with the first `limit` rounds after round `after` that the log still has, and the changes there.

        The first may begin earlier, and the last end later than those.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if an entry has a type, a version or fields that this version does not know: any change.
        """

    async def load_snapshot(self, key: ModelKey) -> Snapshot | None:
        """The latest snapshot.

        Raises:
            NewerVersionError: if a newer version wrote it.
            DamagedSnapshotError: if it is damaged.
        """

    async def save_snapshot(self, key: ModelKey, snapshot: Snapshot, retain_rounds: int) -> int:
        """Keeps the snapshot if it has seen more than the one there, all of this log; trims the log before it.

        A snapshot of a newer version stays, unless it is on record as damaged.

        Returns:
            How many rounds the snapshot that is now there has seen.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def publish_statistics(self, key: ModelKey, published: PublishedStatistics) -> int:
        """Keeps the statistics if they count more rounds than those there, which no newer version wrote.

        Returns:
            How many rounds the statistics that are now there have counted.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def record_damage(self, key: ModelKey, found: Sequence[Damage]) -> bool:
        """Records rounds that cannot be read, so that every worker leaves out the same.

        Returns:
            Whether they are on record. If not, the snapshot has seen them: start from that.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def mark_snapshot(self, key: ModelKey, rounds: int, reason: str) -> None:
        """Record that the snapshot of these rounds cannot be read, so that any other takes its place.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_damage(self, key: ModelKey) -> DamageRecord:
        """What is on record as damaged."""

    async def list_damaged(self, limit: int) -> list[str]:
        """The first names of models with recorded damage, in order."""

    def scan_blocks(self, key: ModelKey) -> AsyncIterator[Block]:
        """Every block of predictions of a model, in no order; the store is searched for them."""

    async def read_model_stats(self, name: str) -> ModelStats | None:
        """The figures of the model of that name, at a cost that no history changes."""

    async def list_names(self, limit: int) -> list[str]:
        """The first names of models, in order; some may be gone."""

    async def read_load(self) -> StoreLoad:
        """How full the store is."""

    async def check(self) -> StoreReadiness:
        """Write to each server of the store, and say what it promises.

        Raises:
            StoreUnavailableError: if a write is refused, for whatever reason.
        """

    async def close(self) -> None:
        """Closes connections."""

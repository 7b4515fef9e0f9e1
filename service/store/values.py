"""The values that the store accepts and returns."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from service.errors import OpenPredictionsFullError
from service.prediction_id import PredictionId
from service.store.records.outcomes import Outcome
from service.store.stored_models import NO_POLICIES, StoredPolicies


class Feedback(NamedTuple):
    """Feedback to join with its prediction: `correct`, `truth` or both; or only `reward`."""

    prediction_id: PredictionId
    correct: bool | None
    truth: bytes | None  # encoded, with the same length as the answer
    reward: float | None = None  # from 0 to 1; 1 means correct, and 0 means wrong
    digest: bytes = b""  # digest of the history whose labels encode the truth


class FeedbackStatus(StrEnum):
    """The result of one feedback item."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"  # a different outcome was recorded first
    INCONSISTENT = "inconsistent"  # `correct` contradicts the truth
    LABEL_NEEDED = "label-needed"  # the learner needs the truth, which is unknown
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    ACTIVATION_NEEDED = "activation-needed"
    HISTORY_LOST = "history-lost"  # the store has lost changes that the prediction has seen
    BROKEN = "broken"  # the record of the prediction is damaged
    NEWER = "newer-version"  # a newer version wrote the record of the prediction


class FeedbackResult(NamedTuple):
    """The status of a feedback item and, if it is `recorded`, `duplicate` or `conflict`, the stored outcome, else None.

    The outcome of feedback that waits for the window to end has round 0.
    """

    status: FeedbackStatus
    outcome: Outcome | None


class FeedbackRules(NamedTuple):
    """A model's rules for accepting feedback, and the history whose labels encode the truths."""

    accept_late: bool  # whether feedback is accepted after the window, too
    label_needed: bool  # whether the learner needs every true label
    change_count: int  # the number of changes in the history
    digest: bytes  # digest of the history up to these changes


class PublishedStatistics(NamedTuple):
    """Statistics of the first rounds of a log, and the time slots (`service.replicas.statistics.SLOTS`) at present."""

    round_count: int
    statistics: bytes
    slot: int  # number of the current time slot
    oldest_slot: int  # number of the oldest slot that can contain open predictions
    version: int  # version of the statistics
    warnings: str = "[]"  # JSON list: limits that the learner's state has reached
    overview: str = ""  # what they say in short: see `service.analytics.overviews`


class ModelStats(NamedTuple):
    """A model's counters and published statistics."""

    name: str
    round_count: int
    predictions: int
    correct: int
    refused: dict[str, int]  # number of feedback items by `FeedbackStatus`, except `recorded`
    snapshot_rounds: int
    snapshot_at: float | None  # seconds since the epoch; None without a snapshot
    statistics_rounds: int
    statistics: bytes  # empty if none were published
    predictions_by: dict[int, int]  # total predictions made by the end of each time slot
    damaged: int = 0  # rounds that cannot be read
    partial: float = 0.0  # sum of the rewards between 0 and 1
    expired: int = 0  # rounds without feedback
    abstained: int = 0  # rounds whose answer abstained
    predictions_refused: int = 0  # predictions not stored because the open ones would have exceeded their maximum bytes


class StoreLoad(NamedTuple):
    """The memory use of a store or, if it has several servers, of the fullest one; and other figures."""

    memory: int  # bytes used
    memory_limit: int  # bytes; the machine's memory if the store has no limit
    models: int  # number of listed models
    backup_at: float = 0.0  # when the latest whole backup began, in seconds since the epoch; 0 if there is none
    disk_free: float = math.inf  # bytes free on the disk of a store on this machine; infinity if unknown


class ModelMemory(NamedTuple):
    """Bytes of a model in the memory of the store."""

    log: int  # the rounds and changes
    state: int  # the latest snapshot
    kept: int  # kept snapshots
    shadows: int  # the definitions and snapshots of shadows
    open: int  # open predictions, until they are closed or their keys have expired
    other: int  # definition, counters, statistics, deadlines, positions of imports


class StoreReadiness(NamedTuple):
    """Version, durability and warnings of a store, for its operator."""

    version: str
    persistence: str  # its durability, in one sentence
    warnings: list[str]


_SNAPSHOT = b"snapshot"
_FIELD = re.compile(rb"(snapshot|\d{1,18})-(\d{1,18})")


class DamagedSnapshotError(Exception):
    """A snapshot is damaged. Requests fail only if the log no longer contains all of the snapshot's rounds.

    Attributes:
        round_count: number of rounds in the snapshot, according to its fields; 0 if unreadable.
    """

    def __init__(self, detail: str, round_count: int = 0) -> None:
        super().__init__(detail)
        self.round_count = round_count


class Damage(NamedTuple):
    """Unreadable rounds of the log, or an unreadable snapshot."""

    first: int  # number of the first damaged round; 1 for a snapshot
    last: int  # number of the last one; for a snapshot, of the last round that it includes
    entry: int  # number of the last round in the damaged log entry; for a snapshot, the number of its rounds
    reason: str
    snapshot: bool = False
    found_at: float | None = None  # seconds since the epoch on the store's clock; None until recorded


class DamageRecord(NamedTuple):
    """The recorded damage of a model. The version changes whenever ranges of rounds are added."""

    version: int
    found: list[Damage]  # sorted by round


def decode_damage(fields: Mapping[bytes, bytes]) -> list[Damage]:
    """Decode a model's damage record, sorted by round. Skip invalid names, and replace invalid values by defaults."""
    found = (_damage(name, value) for name, value in fields.items())
    return sorted((each for each in found if each is not None), key=lambda each: (each.first, each.last))


def _damage(name: bytes, value: bytes) -> Damage | None:
    if (match := _FIELD.fullmatch(name)) is None:
        return None
    begin, end = match.groups()
    try:
        decoded = json.loads(value)
        entry, reason, at = int(decoded["entry"]), str(decoded["reason"]), float(decoded["at"])
    except (ValueError, TypeError, KeyError):
        entry, reason, at = 0, "unknown", 0.0
    if begin == _SNAPSHOT:
        return Damage(1, int(end), entry, reason, True, at)
    return Damage(int(begin), int(end), entry, reason, False, at)


class NameQuota(NamedTuple):
    """How many models a key may have."""

    glob: str  # the pattern of the names that count, in which `*` matches any characters
    prefix: str  # the part before its first `*`
    most: int


class Due(StrEnum):
    """The lists of models that need background work, by the keys of their sorted sets.

    A member is `<name>:<incarnation>`. Its score is the moment at which the model becomes due, in seconds since the
    epoch. Some of the models may be gone, or, in `ERASURE`, may be there.
    """

    CLOSING = "wager:closing"  # predictions expire and must be closed
    RETENTION = "wager:retention"  # rounds become older than `retain_seconds`
    SHADOWS = "wager:shadowed"  # shadows have rounds to fold
    ERASURE = "wager:erasure"  # the model is deleted, and its predictions must be erased: due since its deletion


MOST_SOURCES = 100
"""Maximum sources per model whose import positions are kept: the most recently used ones."""


class ImportBlock(NamedTuple):
    """A block of predictions to import, and their outcomes."""

    id: str
    record: bytes
    outcomes: bytes  # of each prediction: the reward as a float64, then the encoded truth (every bit 1 if unknown)


class ImportBatch(NamedTuple):
    """Consecutive rounds of a source, appended to the log together or not at all."""

    source: str
    place: int  # the number of rounds that precede them in the source
    size: int  # the number of rounds
    blocks: Sequence[ImportBlock]
    digest: bytes  # digest of the history that the records take into account


class Imported(NamedTuple):
    """The result of an import."""

    position: int  # the number of rounds imported from the source so far, by this call or others
    round_count: int  # total rounds in the log
    change_count: int  # total changes in the log
    appended: bool  # whether this call appended the rounds


class ImportedSource(NamedTuple):
    """A source of imported rounds."""

    source: str
    position: int
    at: float  # when it was used last, in seconds since the epoch


MOST_KEPT = 20
"""Maximum kept snapshots of a model."""


class Snapshot(NamedTuple):
    """The encoded state after the first rounds and changes of the log, and the statistics of these rounds."""

    round_count: int
    state: bytes | memoryview
    last_at: bytes | None = None  # mark of the last entry (`service.store.log_entries`); None if unknown
    statistics: bytes = b""
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0
    digest: bytes = b""  # digest of the history up to these changes


class KeptNote(NamedTuple):
    """The list entry of a kept snapshot."""

    id: str
    round_count: int
    change_count: int
    at: float  # seconds since the epoch
    by: str | None = None  # the id of the API key
    note: str = ""
    bytes: int = 0  # size of the encoded state
    learner: str = ""  # JSON of the learner if a promotion kept it; "" for the model's after `change_count` changes


class Keeping(StrEnum):
    """The result of keeping or dropping a snapshot."""

    DONE = "done"
    THERE = "there"  # the id is taken
    FULL = "full"  # the model has `MOST_KEPT` snapshots
    STALE = "stale"  # the log, its damage or the history differ from what the caller has seen
    NEEDED = "needed"  # the log has a change that needs the snapshot
    ABSENT = "absent"  # no snapshot has this id


class Counts(NamedTuple):
    """The counters of a model."""

    correct: int = 0
    partial: float = 0.0  # sum of the rewards between 0 and 1
    expired: int = 0
    abstained: int = 0


class CopiedShadow(NamedTuple):
    """A shadow of a model to create. Without a snapshot, its fold begins after the rounds in the model's state."""

    name: str
    id: str
    text: str  # JSON: see `service.shadows.definition`
    restarts: int
    snapshot: Snapshot | None  # includes the same rounds and changes as the model's snapshot


class ModelCopy(NamedTuple):
    """A model to create with the state of another one."""

    definition: str  # JSON, before any change
    history: tuple[str, ...]  # every change as JSON, oldest first; the last one contains the origin of the copy
    summary: str
    snapshot: Snapshot  # after all of these changes
    counts: Counts
    policies: StoredPolicies = NO_POLICIES
    imports: tuple[ImportedSource, ...] = ()  # the sources of imported rounds that the state includes
    shadows: tuple[CopiedShadow, ...] = ()


class Closed(NamedTuple):
    """The result of closing expired predictions of a model."""

    newest_round: int  # the number of the last round appended; 0 if there was none
    more: bool  # whether expired predictions remain open
    is_newer: bool  # whether a newer version made some of them


KEPT_FOR_SHADOWS = 100_000
"""Maximum rounds that a log keeps only for shadows that have not folded them. A shadow that lags by more restarts."""


class StoredShadow(NamedTuple):
    """A shadow as stored."""

    name: str
    id: str  # new whenever its learner is replaced
    slot: int  # identifies the key of its snapshot
    text: str  # JSON: see `service.shadows.definition`
    since_rounds: int  # its fold begins after this number of rounds of the log
    since_changes: int  # and after this number of changes
    rounds: int | None  # number of rounds in its snapshot; None if it has no snapshot
    restarts: int = 0  # how often it had to restart

    @property
    def folded(self) -> int:
        """The number of rounds in its snapshot; if it has no snapshot, the number of rounds before its fold begins."""
        return self.since_rounds if self.rounds is None else self.rounds


class LogEntry(NamedTuple):
    """Rounds of one block of predictions, appended by one call. Rounds are numbered from 1."""

    last_round: int  # number of the last of these rounds
    block: str
    payload: bytes  # one or more rounds
    change_count: int = 0  # number of changes in the log before these rounds


class ChangeEntry(NamedTuple):
    """A change of the model. In the log, it follows the first `round_count` rounds and precedes the others."""

    round_count: int
    change_count: int  # number of the change, from 1
    payload: bytes  # JSON; see `service.models.changes`


class Tail(NamedTuple):
    """Log entries after some round, oldest first, and the totals of the log. The first may also have earlier rounds."""

    round_count: int  # total rounds in the log
    entries: list[LogEntry]
    damage: int = 0  # version of the damage record
    change_count: int = 0  # total changes in the log
    changes: Sequence[ChangeEntry] = ()  # the changes among the entries, oldest first
    digest: bytes = b""  # digest of the history with all changes


class Seen(NamedTuple):
    """The rounds and changes that a state has seen, and the maximum number of unseen rounds to return.

    A log that lost its end (by a fail-over, a power loss or an old backup) and then continued may have as many rounds
    as the state has seen, but different ones. The mark of the last entry distinguishes the two logs, and the digest
    distinguishes their changes.
    """

    round_count: int
    limit: int  # maximum number of unseen rounds to return
    last_at: bytes | None = None  # mark of the last entry (`service.store.log_entries`); None if unknown
    allow_newer: bool = False  # whether the log may have newer rounds
    damage: int = 0  # version of the damage record taken into account
    change_count: int = 0
    digest: bytes = b""  # digest of the history up to these changes


class Block(NamedTuple):
    """Predictions stored together: the id of their block, and its record."""

    id: str
    record: bytes


Head: TypeAlias = bytes | OpenPredictionsFullError | None
"""The result for a new block: None if it was stored; otherwise, the record already stored under its id, or an error."""


class BlockPage(NamedTuple):
    """Some blocks of a model, in any order, and the cursor of the next page, which is None on the last page."""

    blocks: list[Block]
    next_cursor: str | None

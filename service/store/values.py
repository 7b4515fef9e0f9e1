"""The values that the store takes and returns."""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from service.prediction_id import PredictionId
from service.store.records.outcomes import Outcome


class Feedback(NamedTuple):
    """Feedback to join with its prediction. It has `correct`, `truth`, or both, or only `reward`."""

    prediction_id: PredictionId
    correct: bool | None
    truth: bytes | None  # same length as the answer
    reward: float | None = None  # from 0 to 1; 1 means correct, and 0 means wrong
    digest: bytes = b""  # of the history by whose labels the truth is encoded


class FeedbackStatus(StrEnum):
    """The result of one feedback."""

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
    """The status, and the outcome on record; None unless `recorded`, `duplicate` or `conflict`.

    The outcome of feedback that waits for the window to close has round 0.
    """

    status: FeedbackStatus
    outcome: Outcome | None


class FeedbackRules(NamedTuple):
    """A model's rules for accepting feedback, and the history by whose labels truths are encoded."""

    accept_late: bool
    label_needed: bool
    change_count: int
    digest: bytes


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
    refused: dict[str, int]  # number of feedback items by `FeedbackStatus`, except `recorded`
    snapshot_rounds: int
    snapshot_at: float | None  # seconds since the epoch; None without a snapshot
    statistics_rounds: int
    statistics: bytes  # empty if none were published
    predictions_by: dict[int, int]  # total predictions made by the end of each time slot
    damaged: int = 0  # rounds that cannot be read
    partial: float = 0.0  # sum of the rewards between 0 and 1
    expired: int = 0  # rounds that no feedback made
    open_bytes: int = 0  # of open predictions, until their keys have expired
    predictions_refused: int = 0  # because of these bytes


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


_SNAPSHOT = b"snapshot"
_FIELD = re.compile(rb"(snapshot|\d{1,18})-(\d{1,18})")


class DamagedSnapshotError(Exception):
    """A snapshot is damaged. Requests fail only if the log no longer has all of its rounds.

    Attributes:
        round_count: number of rounds in the snapshot, according to its fields; 0 if unreadable.
    """

    def __init__(self, detail: str, round_count: int = 0) -> None:
        super().__init__(detail)
        self.round_count = round_count


class Damage(NamedTuple):
    """Unreadable rounds of the log, or an unreadable snapshot."""

    first: int  # round; 1 for a snapshot
    last: int  # round; for a snapshot, the last that it includes
    entry: int  # last round of the entry that contains the damage
    reason: str
    snapshot: bool = False
    found_at: float | None = None  # seconds since the epoch on the store's clock; None until recorded


class DamageRecord(NamedTuple):
    """The recorded damage of a model. Each new range of rounds changes the version."""

    version: int
    found: list[Damage]  # sorted by round


def decode_damage(fields: Mapping[bytes, bytes]) -> list[Damage]:
    """Decode a model's damage hash, sorted by round. Skip invalid fields, as the hash may be damaged as well."""
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
        entry, reason, at = 0, "not known", 0.0
    if begin == _SNAPSHOT:
        return Damage(1, int(end), entry, reason, True, at)
    return Damage(int(begin), int(end), entry, reason, False, at)

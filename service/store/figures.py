"""Counters and statistics of models, and the condition of a store, for monitoring."""

from typing import NamedTuple


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

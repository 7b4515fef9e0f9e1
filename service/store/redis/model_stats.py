"""Reads counters and statistics for monitoring, with a few small reads per model, however long its log is."""

import asyncio
import math
from collections.abc import Sequence

from service.json_values import JsonObject
from service.store import keys
from service.store.connections.connections import Call
from service.store.redis.model_hash import corrupt, count, reward_sum
from service.store.values import FeedbackStatus, ModelStats, StoreLoad

_SLOT = b"s:"
_COUNTERS = ("rounds", "predictions", "correct")
_FIELDS = (
    "incarnation",
    *_COUNTERS,
    "damaged",
    "partial",
    "expired",
    "abstained",
    "predictions_refused",
    *(f"refused:{status}" for status in FeedbackStatus),
)


async def read_model_stats(call: Call, name: str) -> ModelStats | None:
    """Read a model's counters and statistics; return None if the model does not exist.

    Raises:
        StoreCorruptError: if a required field is missing, or a number is invalid.
    """
    values = await call("HMGET", keys.model(name), *_FIELDS)
    if values == [None] * len(values):
        return None
    if values[0] is None:
        raise corrupt(name, "its incarnation is missing")
    incarnation = values[0].decode(errors="replace")
    statistics, (snapshot_rounds, snapshot_at) = await asyncio.gather(
        call("HGETALL", keys.statistics(name, incarnation)),
        call("HMGET", keys.snapshot(name, incarnation), "rounds", "at"),
    )
    rounds, predictions, correct = (count(name, *pair) for pair in zip(_COUNTERS, values[1:4], strict=True))
    damaged = count(name, "damaged", values[4] or b"0")
    refused = zip(FeedbackStatus, values[9:], strict=True)
    return ModelStats(
        name=name,
        round_count=rounds,
        predictions=predictions,
        correct=correct,
        refused={status: count(name, f"refused:{status}", there) for status, there in refused if there is not None},
        snapshot_rounds=count(name, "rounds of its snapshot", snapshot_rounds or b"0"),
        snapshot_at=None if snapshot_at is None else float(count(name, "seconds of its snapshot", snapshot_at)),
        statistics_rounds=count(name, "rounds of its statistics", statistics.get(b"rounds", b"0")),
        statistics=statistics.get(b"tally", b""),
        predictions_by=_by_slot(name, statistics),
        damaged=damaged,
        partial=reward_sum(name, values[5]),
        expired=min(count(name, "expired", values[6] or b"0"), rounds),  # only a damaged counter is larger
        abstained=min(count(name, "abstained", values[7] or b"0"), rounds),
        predictions_refused=_repaired(values[8]),
    )


async def read_load(servers: Sequence[Call], call: Call) -> StoreLoad:
    """Read the store's memory use, its memory limit, the number of listed models, and the time of the latest backup.

    Args:
        servers: one call per server that accepts writes. The memory is that of the fullest server.
        call: sends a command to the server that has the command's keys.
    """
    own = call("ZCARD", keys.MODELS), call("ZMSCORE", keys.BACKUP, "all")
    *infos, models, (backup_at,) = await asyncio.gather(*(server("INFO", "memory") for server in servers), *own)
    used, limit = max(map(_memory, infos), key=lambda memory: memory[0] / (memory[1] or math.inf))
    return StoreLoad(used, limit, int(models), float(backup_at or 0))


def _memory(info: JsonObject) -> tuple[int, int]:
    """Return the used bytes, and their limit or, without a limit, the machine's memory; 0 for an unknown limit."""
    return int(info["used_memory"]), int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))


def _by_slot(name: str, statistics: dict[bytes, bytes]) -> dict[int, int]:
    """Return the total number of predictions made by the end of each time slot."""
    slots = {field[len(_SLOT) :]: value for field, value in statistics.items() if field.startswith(_SLOT)}
    return {count(name, "slots of its statistics", slot): count(name, "slots", value) for slot, value in slots.items()}


def _repaired(value: bytes | None) -> int:
    """Decode a counter; a missing or damaged one counts as 0, because it is not essential."""
    return int(value) if value is not None and value.isdigit() else 0

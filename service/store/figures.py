"""What a store tells whoever watches it: a few small reads for each model, whatever the length of its log."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from service.store import keys
from service.store.base import FeedbackStatus, ModelFigures, StoreLoad

_Call = Callable[..., Awaitable[Any]]

_REFUSED, _SLOT = b"refused:", b"s:"


async def read_figures(call: _Call, name: str) -> ModelFigures | None:
    """The figures of a model; None if there is none of that name."""
    model = await call("HGETALL", keys.model(name))
    if not model:
        return None
    incarnation = model[b"incarnation"].decode()
    tally, (snapshot_rounds, snapshot_at) = await asyncio.gather(
        call("HGETALL", keys.tally(name, incarnation)),
        call("HMGET", keys.snapshot(name, incarnation), "rounds", "at"),
    )
    refused = _numbered(model, _REFUSED)  # a newer version may count more kinds
    return ModelFigures(
        name=name,
        rounds=int(model[b"rounds"]),
        predictions=int(model[b"predictions"]),
        correct=int(model[b"correct"]),
        refused={status: refused[status] for status in FeedbackStatus if status in refused},
        snapshot_rounds=int(snapshot_rounds or 0),
        snapshot_at=None if snapshot_at is None else float(snapshot_at),
        tally_rounds=int(tally.get(b"rounds", 0)),
        tally=tally.get(b"tally", b""),
        predictions_by={int(slot): count for slot, count in _numbered(tally, _SLOT).items()},
        damaged=int(model.get(b"damaged", 0)),
    )


async def read_load(servers: Sequence[_Call], call: _Call) -> StoreLoad:
    """How much memory the store uses, of how much, and how many models are listed.

    Args:
        servers: a way to each server that takes writes; what is told of memory is of the fullest.
        call: sends a command to the server that has its keys.
    """
    *infos, models = await asyncio.gather(*(server("INFO", "memory") for server in servers), call("ZCARD", keys.MODELS))
    used, limit = max(map(_memory, infos), key=lambda memory: memory[0] / (memory[1] or math.inf))
    return StoreLoad(used, limit, int(models))


def _memory(info: dict[str, Any]) -> tuple[int, int]:
    """Bytes used, and the most that may be; 0 where that is not told."""
    return int(info["used_memory"]), int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))


def _numbered(fields: dict[bytes, bytes], prefix: bytes) -> dict[str, int]:
    """The counters whose names begin so, by the rest of their names."""
    return {name[len(prefix) :].decode(): int(count) for name, count in fields.items() if name.startswith(prefix)}

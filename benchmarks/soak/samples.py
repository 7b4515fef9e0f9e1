"""What workers and their store use at a moment."""

from pathlib import Path
from typing import Any, NamedTuple

import redis

from benchmarks.server import Server


class WorkerUsage(NamedTuple):
    """What the first worker of a service uses."""

    memory: float  # resident bytes
    descriptors: float
    threads: float
    seconds: float  # processor time so far


class StoreUsage(NamedTuple):
    """What a store holds."""

    memory: float  # bytes in use, without fragmentation
    keys: float
    retained: int  # rounds in all logs that the latest snapshots include
    unfolded: int  # most rounds in the log of a model that its latest snapshot lacks


def read_worker(server: Server) -> WorkerUsage:
    """Read what the first worker uses."""
    pid = server.pids[0]
    resident, threads = (int(_status(pid)[name].split()[0]) for name in ("VmRSS", "Threads"))
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return WorkerUsage(1024.0 * resident, descriptors, threads, server.busy_seconds())


def read_store(url: str) -> StoreUsage:
    """Read what a store holds."""
    store = redis.Redis.from_url(url)
    try:
        memory, total = store.info("memory")["used_memory"], store.dbsize()
        logs = [key.decode() for key in store.scan_iter(match="wager:*:log", count=1_000)]
        lengths = [_length(store, key) for key in logs]
    finally:
        store.close()
    return StoreUsage(memory, total, sum(before for before, _ in lengths), max(after for _, after in lengths))


def _length(store: redis.Redis, log: str) -> tuple[int, int]:
    """Return the number of rounds in a log up to the latest snapshot, and after it.

    The id of an entry begins with the number of rounds up to and including the entry. The first one counts as a round.
    """
    ends: Any = store.xrange(log, count=1), store.xrevrange(log, count=1)
    if not all(ends):
        return 0, 0  # the model was deleted
    first, last = (int(entries[0][0].partition(b"-")[0]) for entries in ends)
    included: Any = store.hget(log.removesuffix("log") + "snapshot", "rounds")
    return max(0, int(included or 0) - first + 1), max(0, last - int(included or 0))


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

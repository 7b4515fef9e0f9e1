"""What workers and their store use at a moment."""

from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.server import Server
from service.store import keys


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
    log_entries: float  # over all models
    open_bytes: float  # of predictions over all models, as counted for `WAGER_MAX_OPEN_BYTES`


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
        entries = sum(store.xlen(key) for key in logs)
        models = [keys.model(key.partition("{")[2].partition("}")[0]) for key in logs]
        open_bytes = sum(int(store.hget(key, "open_bytes") or 0) for key in models)
    finally:
        store.close()
    return StoreUsage(memory, total, entries, open_bytes)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

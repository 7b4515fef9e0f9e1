"""What a worker and its store use at a moment."""

from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.server import Server


class Usage(NamedTuple):
    """What must not grow."""

    worker_memory: float  # resident bytes
    worker_descriptors: float
    worker_threads: float
    store_memory: float  # bytes in use, without fragmentation
    store_keys: float
    log_entries: float  # over all models
    worker_seconds: float  # processor time so far


def read_usage(server: Server) -> Usage:
    """Read what the first worker and the store use."""
    pid = server.pids[0]
    store = redis.Redis.from_url(server.store_url)
    try:
        memory, keys = store.info("memory")["used_memory"], store.dbsize()
        logs = store.scan_iter(match="wager:*:log", count=1_000)
        entries = sum(store.xlen(key) for key in logs)
    finally:
        store.close()
    resident, threads = (int(_status(pid)[name].split()[0]) for name in ("VmRSS", "Threads"))
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Usage(1024.0 * resident, descriptors, threads, memory, keys, entries, server.busy_seconds())


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

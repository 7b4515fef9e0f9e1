"""The cost of some work to the store and the workers: processor time, commands, bytes."""

from typing import NamedTuple

import redis

from benchmarks.server import Server


class Meters(NamedTuple):
    """Counters that only grow; the difference of two readings is the cost of the work between them."""

    worker_seconds: float  # processor time of all workers
    store_seconds: float  # processor time, all threads
    commands: float  # script calls of clients; commands within a script do not count
    bytes: float  # over the store's connections, both directions

    def per(self, before: "Meters", n: int) -> "Meters":
        """Return the cost per item of n items since the reading `before`."""
        return Meters(*((now - then) / n for now, then in zip(self, before, strict=True)))


def read_meters(server: Server) -> Meters:
    """Read the current counters."""
    store = redis.Redis.from_url(server.store_url)
    info, calls = store.info(), store.info("commandstats")
    store.close()
    commands = sum(stats["calls"] for name, stats in calls.items() if name.startswith("cmdstat_eval"))
    traffic = info["total_net_input_bytes"] + info["total_net_output_bytes"]
    seconds = info["used_cpu_sys"] + info["used_cpu_user"]
    return Meters(server.busy_seconds(), seconds, commands, traffic)


def memory_used(server: Server) -> int:
    """Return the bytes of memory that the store uses."""
    store = redis.Redis.from_url(server.store_url)
    used: int = store.info("memory")["used_memory"]
    store.close()
    return used

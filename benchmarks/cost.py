"""What a stretch of work cost the store and the workers: processor time, commands, bytes."""

from typing import NamedTuple

import redis

from benchmarks.server import Server


class Meters(NamedTuple):
    """Counters that only grow; the difference of two is what was spent between them."""

    worker_seconds: float  # on a processor, all workers
    store_seconds: float  # on a processor, all threads
    commands: float  # from outside; what a script calls is part of it
    bytes: float  # over the store's connections, both ways

    def per(self, before: "Meters", n: int) -> "Meters":
        """What was spent since, for each of n."""
        return Meters(*((now - then) / n for now, then in zip(self, before, strict=True)))


def read_meters(server: Server) -> Meters:
    """The counters of now."""
    store = redis.Redis.from_url(server.store_url)
    info, calls = store.info(), store.info("commandstats")
    store.close()
    commands = sum(stats["calls"] for name, stats in calls.items() if name.startswith("cmdstat_eval"))
    traffic = info["total_net_input_bytes"] + info["total_net_output_bytes"]
    seconds = info["used_cpu_sys"] + info["used_cpu_user"]
    return Meters(server.busy_seconds(), seconds, commands, traffic)


def memory_used(server: Server) -> int:
    """Bytes of the store's data."""
    store = redis.Redis.from_url(server.store_url)
    used: int = store.info("memory")["used_memory"]
    store.close()
    return used

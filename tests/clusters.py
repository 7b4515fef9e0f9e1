"""A cluster on loopback for the tests, and its slots."""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.servers import free_port, wait_until
from tests.store_servers import Server, in_sync, is_loaded

SLOTS = 16384


class Cluster:
    """Three primaries and three replicas; server 3 + i is the replica of primary i."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = servers
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers[:3])

    def slot(self, key: str) -> int:
        return int(self.servers[0].send("CLUSTER", "KEYSLOT", key))

    def owner(self, slot: int) -> Server:
        """Return the server that serves the slot according to its own view.

        Raises:
            LookupError: if no server does.
        """
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                for first, last, (_, port, *_), *_ in server.send("CLUSTER", "SLOTS"):
                    if first <= slot <= last and port == server.port:
                        return server
        raise LookupError(slot)

    def id(self, server: Server) -> str:
        """Return a server's node id in the cluster."""
        return str(server.send("CLUSTER", "MYID"))

    def primaries(self) -> list[Server]:
        """Return the servers that serve slots, according to the first one that answers."""
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                ports = {port for _, _, port in _primaries(server)}
                return [each for each in self.servers if each.port in ports]
        raise LookupError("no server answers")

    def replica_of(self, primary: Server) -> Server:
        """Return the replica that a primary reports as online.

        Raises:
            LookupError: if it reports none.
        """
        found = primary.send("INFO", "replication").get("slave0", {})
        for server in self.servers:
            if server.port == found.get("port") and found.get("state") == "online":
                return server
        raise LookupError(f"{primary.port} has no replica")

    def is_whole(self) -> bool:
        """Check whether all servers agree, and every primary has a replica that has loaded its data."""
        with contextlib.suppress(redis.RedisError, LookupError):
            replicas = [self.replica_of(primary) for primary in self.primaries()]
            return len(replicas) == 3 and all(map(is_loaded, replicas)) and self.agrees()
        return False

    def agrees(self) -> bool:
        """Check whether every running server sees all slots served, by the same servers."""
        views = []
        for server in self.servers:
            with contextlib.suppress(redis.ConnectionError):
                views.append((_state(server) == "ok", _primaries(server)))
        return all(fine for fine, _ in views) and len({primaries for _, primaries in views}) == 1


def _state(server: Server) -> str:
    info = server.send("CLUSTER", "INFO")
    if isinstance(info, dict):
        return str(info["cluster_state"])
    return str(dict(line.split(":") for line in info.splitlines())["cluster_state"])


def _primaries(server: Server) -> frozenset[tuple[int, int, int]]:
    return frozenset((first, last, node[1]) for first, last, node, *_ in server.send("CLUSTER", "SLOTS"))


@contextmanager
def cluster(folder: Path, node_timeout_ms: int = 1500, **options: str) -> Iterator[Cluster]:
    """Start six servers with a configuration that lists all of them, which saves waiting for gossip."""
    common: dict[str, Any] = {"cluster_enabled": "yes", "cluster_node_timeout": str(node_timeout_ms), **options}
    with ExitStack() as stack:
        servers = []
        for number in range(6):
            server = Server(folder / f"node-{number}", **common, cluster_port=str(free_port()))
            stack.callback(server.kill)
            servers.append(server)
        _introduce(servers, folder)
        for server in servers:
            server.start()
        made = Cluster(servers)
        wait_until(lambda: all(server.answers() for server in servers))
        wait_until(lambda: made.agrees() and in_sync(servers[:3]))
        yield made


def _introduce(servers: Sequence[Server], folder: Path) -> None:
    """Write each server's nodes.conf."""
    ids = [f"{number + 1:040x}" for number in range(6)]
    bounds = [0, 5461, 10923, SLOTS]
    for me in range(6):
        lines = []
        for number, server in enumerate(servers):
            self_ = "myself," if number == me else ""
            place = f"{ids[number]} 127.0.0.1:{server.port}@{server._options['cluster-port']}"
            if number < 3:
                slots = f"{bounds[number]}-{bounds[number + 1] - 1}"
                lines.append(f"{place} {self_}master - 0 0 {number + 1} connected {slots}")
            else:
                lines.append(f"{place} {self_}slave {ids[number - 3]} 0 0 {number - 2} connected")
        lines.append("vars currentEpoch 3 lastVoteEpoch 0")
        (folder / f"node-{me}" / "nodes.conf").write_text("\n".join(lines) + "\n")


def move_by_key(fleet: Cluster, slot: int, source: Server, target: Server, at_once: int = 10) -> None:
    """Move a slot as `redis-cli --cluster reshard` does, `at_once` keys at a time."""
    target.send("CLUSTER", "SETSLOT", slot, "IMPORTING", fleet.id(source))
    source.send("CLUSTER", "SETSLOT", slot, "MIGRATING", fleet.id(target))
    while moving := source.send("CLUSTER", "GETKEYSINSLOT", slot, at_once):
        source.send("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *moving, patience=10.0)
    for server in (target, source):
        server.send("CLUSTER", "SETSLOT", slot, "NODE", fleet.id(target))


def move_in_one_step(fleet: Cluster, slot: int, source: Server, target: Server) -> None:
    """Move a slot as Valkey 9 does, in one step for its clients; return before the move has ended."""
    source.send("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", fleet.id(target))

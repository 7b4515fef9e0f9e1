"""Groups of servers on loopback for the tests: a cluster, and servers that Sentinels watch."""

import contextlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from service.processes import tied_command
from service.store.embedded.server import find_server_binary
from tests.certificates import Certificates
from tests.servers import REDIS_SERVER, free_port, wait_until

SLOTS = 16384
SERVICE = "wager"
"""The service name in the Sentinels' configuration."""

_PEER, _PASSWORD = "peer", "secret"  # the user of replicas and Sentinels; clients send only the password


class Server:
    """A server process that can be killed and restarted with its data.

    Args:
        folder: data folder; created if missing.
        options: server options in addition to the common ones.
        binary: the program; defaults to the embedded store's, or to redis-server for TLS, which the former lacks.
        tls: makes the server accept only TLS clients with certificates, and use TLS to its primary.
    """

    def __init__(
        self, folder: Path, binary: Path | None = None, tls: Certificates | None = None, **options: Any
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.password: str | None = None
        self._folder = folder
        self._tls = tls
        self._binary = binary or (find_server_binary() if tls is None else Path(str(REDIS_SERVER)))
        common = {"bind": "127.0.0.1", "dir": str(folder), "save": "", "appendonly": "yes"}
        common["repl-diskless-sync-delay"] = "0"
        common |= {"port": str(self.port)} if tls is None else tls.server_options(self.port)
        self._options = common | {name.replace("_", "-"): value for name, value in options.items()}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process, without waiting until it answers."""
        flat = [part for name, value in self._options.items() for part in (f"--{name}", value)]
        command = tied_command([str(self._binary), *flat, "--logfile", str(self._folder / "server.log")])
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return self

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End the process immediately, like `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def send(self, *command: Any, patience: float = 2.0, port: int = 0) -> Any:
        """Send a command over a new connection."""
        options: dict[str, Any] = {"socket_timeout": patience, "password": self.password, "decode_responses": True}
        options |= {} if self._tls is None else self._tls.client_options()
        with redis.Redis("127.0.0.1", port or self.port, **options) as client:
            return client.execute_command(*command)

    @contextmanager
    def ended(self) -> Iterator[Self]:
        """Kill the server at the end of the context."""
        try:
            yield self
        finally:
            self.kill()

    def answers(self) -> bool:
        """Check whether the server is ready; fail with its log if it has ended."""
        assert self._process is None or self._process.poll() is None, (self._folder / "server.log").read_text()
        with contextlib.suppress(redis.RedisError):
            return bool(self.send("PING"))
        return False


class Cluster:
    """Three primaries and three replicas; server 3 + i is the replica of primary i."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = servers
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers[:3])

    def slot(self, key: str) -> int:
        """Return the slot of a key."""
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
        wait_until(lambda: made.agrees() and _in_sync(servers[:3]))
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


def _in_sync(primaries: Sequence[Server]) -> bool:
    with contextlib.suppress(redis.ConnectionError):
        return all(_online_replicas(server) == 1 for server in primaries)
    return False


def _online_replicas(server: Server) -> int:
    info = server.send("INFO", "replication")
    return sum(info[f"slave{n}"]["state"] == "online" for n in range(info["connected_slaves"]))


def _is_loaded(replica: Server) -> bool:
    """Check whether the replica has loaded its primary's data; the primary reports "online" earlier."""
    return bool(replica.send("INFO", "replication").get("master_link_status") == "up")


def wait_until_replicated(primary: Server) -> None:
    """Wait until the replica has everything that the primary has at the time of the call."""
    offset = primary.send("INFO", "replication")["master_repl_offset"]
    wait_until(lambda: primary.send("INFO", "replication")["slave0"]["offset"] >= offset)


class SentinelStore:
    """A primary, its replica, and three Sentinels that watch them."""

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Server]) -> None:
        self.servers = servers
        self.sentinels = sentinels
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
        scheme = "redis+sentinel" if sentinels[0]._tls is None else "rediss+sentinel"
        self.url = f"{scheme}://:{_PASSWORD}@{hosts}/{SERVICE}"

    def primary(self) -> Server:
        """Return the server that the first Sentinel names as the primary."""
        address = self.sentinels[0].send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if str(server.port) == address[1])

    def url_of(self, server: Server) -> str:
        """Return a server's direct URL, which bypasses the Sentinels."""
        return f"redis://:{_PASSWORD}@127.0.0.1:{server.port}"

    def cut_off(self, server: Server) -> None:
        """Block the replica and the Sentinels from a server; clients still reach it."""
        server.send("ACL", "SETUSER", _PEER, "off")
        server.send("CLIENT", "KILL", "USER", _PEER)

    def join(self, server: Server) -> None:
        """Lift the block of `cut_off`."""
        server.send("ACL", "SETUSER", _PEER, "on")

    def is_whole(self, loaded: bool = True) -> bool:
        """Check whether the primary has its replica and every Sentinel sees all others.

        Args:
            loaded: also require that the replica has loaded the primary's data.
        """
        with contextlib.suppress(redis.RedisError, StopIteration):
            primary = self.primary()
            others = [each for each in self.servers if each is not primary]
            in_step = not loaded or all(_is_loaded(each) for each in others)
            return (
                in_step and _online_replicas(primary) == 1 and all(_knows_all(sentinel) for sentinel in self.sentinels)
            )
        return False


def _knows_all(sentinel: Server) -> bool:
    replicas = sentinel.send("SENTINEL", "REPLICAS", SERVICE)
    others = sentinel.send("SENTINEL", "SENTINELS", SERVICE)
    return len(replicas) == 1 and len(others) == 2 and not any(_is_down(each) for each in (*replicas, *others))


def _is_down(fields: Any) -> bool:
    flags = fields["flags"] if isinstance(fields, dict) else fields[fields.index("flags") + 1]
    return not {"s_down", "o_down", "disconnected"}.isdisjoint(str(flags).split(","))


@contextmanager
def sentinels(
    folder: Path, down_after_ms: int = 500, tls: Certificates | None = None, **options: Any
) -> Iterator[SentinelStore]:
    """Start a primary, its replica, and three Sentinels that fail over after `down_after_ms` without an answer."""
    users = folder / "users.acl"
    users.write_text(f"user default on >{_PASSWORD} ~* &* +@all\nuser {_PEER} on >{_PASSWORD} ~* &* +@all\n")
    options |= {"aclfile": str(users), "masteruser": _PEER, "masterauth": _PASSWORD}
    with ExitStack() as stack:
        servers = [Server(folder / f"server-{number}", tls=tls, **options) for number in range(2)]
        for server in servers:
            server.password = _PASSWORD
        servers[1]._options["replicaof"] = f"127.0.0.1 {servers[0].port}"
        names = [folder / f"sentinel-{number}" for number in range(3)]
        watchers = [_Sentinel(name, servers[0].port, down_after_ms, tls) for name in names]
        made = SentinelStore(servers, watchers)
        for group in (servers, watchers):  # Sentinels that start later find the replica immediately
            for server in group:
                stack.callback(server.kill)
                server.start()
            wait_until(lambda: _in_sync(servers[:1]))
        wait_until(made.is_whole)
        yield made


class _Sentinel(Server):
    """A Sentinel with a quorum of two; it stores what it learns in its configuration file."""

    def __init__(self, folder: Path, primary_port: int, down_after_ms: int, tls: Certificates | None) -> None:
        super().__init__(folder, tls=tls)
        lines = [
            *(f"{name} {value}" for name, value in self._options.items() if re.match("port|dir|tls-", name)),
            f"logfile {folder / 'server.log'}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 2",
            f"sentinel auth-user {SERVICE} {_PEER}",
            f"sentinel auth-pass {SERVICE} {_PASSWORD}",
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}",
            f"sentinel failover-timeout {SERVICE} 5000",
        ]
        self._file = folder / "sentinel.conf"
        self._file.write_text("\n".join(lines) + "\n")

    def start(self) -> Self:
        command = tied_command([str(self._binary), str(self._file), "--sentinel"])
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return self

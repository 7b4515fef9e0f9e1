"""Several servers that belong together, on loopback, for the tests: a cluster, and servers watched by Sentinels."""

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
"""The name by which the Sentinels watch."""

_PEER, _PASSWORD = "peer", "secret"
"""As whom replicas and Sentinels come to a watched server; clients come by the password alone."""


class Server:
    """One server process that can be killed and started again on its data.

    Args:
        folder: of its data; made if it is missing.
        options: of the server, beside those that all have.
        binary: the program; if not given, the embedded store's, or for TLS redis-server, as that has none.
        tls: to speak TLS only, to clients who show certificates, and so to its primary.
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
        """Starts it; it may not answer yet."""
        flat = [part for name, value in self._options.items() for part in (f"--{name}", value)]
        command = tied_command([str(self._binary), *flat, "--logfile", str(self._folder / "server.log")])
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return self

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Ends it at once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def send(self, *command: Any, patience: float = 2.0, port: int = 0) -> Any:
        """Sends a command over a connection of its own."""
        options: dict[str, Any] = {"socket_timeout": patience, "password": self.password, "decode_responses": True}
        options |= {} if self._tls is None else self._tls.client_options()
        with redis.Redis("127.0.0.1", port or self.port, **options) as client:
            return client.execute_command(*command)

    @contextmanager
    def ended(self) -> Iterator[Self]:
        """Kills it at the end of the context."""
        try:
            yield self
        finally:
            self.kill()

    def answers(self) -> bool:
        """Whether it is there and ready."""
        with contextlib.suppress(redis.RedisError):
            return bool(self.send("PING"))
        return False


class Cluster:
    """Three primaries and three replicas; the replica of primary i is server 3 + i."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = servers
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers[:3])

    def slot(self, key: str) -> int:
        """The slot of a key."""
        return int(self.servers[0].send("CLUSTER", "KEYSLOT", key))

    def owner(self, slot: int) -> Server:
        """The server that says the slot is its own."""
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                for first, last, (_, port, *_), *_ in server.send("CLUSTER", "SLOTS"):
                    if first <= slot <= last and port == server.port:
                        return server
        raise LookupError(slot)

    def id(self, server: Server) -> str:
        """The name that a server has in the cluster."""
        return str(server.send("CLUSTER", "MYID"))

    def agrees(self) -> bool:
        """Whether every server that runs sees all slots served, by the same servers."""
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
    """Six servers, started with a configuration in which they know each other already: no gossip to wait for."""
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
    """Writes each server's nodes.conf."""
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


def _follows(replica: Server) -> bool:
    """Whether it has loaded what its primary had; the primary calls it online before."""
    return bool(replica.send("INFO", "replication").get("master_link_status") == "up")


def wait_until_replicated(primary: Server) -> None:
    """Waits until the replica has all that the primary has by now."""
    offset = primary.send("INFO", "replication")["master_repl_offset"]
    wait_until(lambda: primary.send("INFO", "replication")["slave0"]["offset"] >= offset)


class SentinelStore:
    """A primary, a replica of it, and three Sentinels that watch them."""

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Server]) -> None:
        self.servers = servers
        self.sentinels = sentinels
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
        scheme = "redis+sentinel" if sentinels[0]._tls is None else "rediss+sentinel"
        self.url = f"{scheme}://:{_PASSWORD}@{hosts}/{SERVICE}"

    def primary(self) -> Server:
        """The server that the first Sentinel believes to be the primary."""
        address = self.sentinels[0].send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if str(server.port) == address[1])

    def url_of(self, server: Server) -> str:
        """Of a server by itself, without asking the Sentinels."""
        return f"redis://:{_PASSWORD}@127.0.0.1:{server.port}"

    def cut_off(self, server: Server) -> None:
        """Neither replica nor Sentinel reaches a server any more; clients do."""
        server.send("ACL", "SETUSER", _PEER, "off")
        server.send("CLIENT", "KILL", "USER", _PEER)

    def join(self, server: Server) -> None:
        """They reach it again."""
        server.send("ACL", "SETUSER", _PEER, "on")

    def is_whole(self, loaded: bool = True) -> bool:
        """Whether the primary has a replica, in step if not just called online, and every Sentinel knows all others."""
        with contextlib.suppress(redis.RedisError, StopIteration):
            primary = self.primary()
            others = [each for each in self.servers if each is not primary]
            in_step = not loaded or all(_follows(each) for each in others)
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
    """A primary, its replica, and a trio that fails over when the primary was silent so long."""
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
        for group in (servers, watchers):  # a Sentinel that starts later need not wait to hear of the replica
            for server in group:
                stack.callback(server.kill)
                server.start()
            wait_until(lambda: _in_sync(servers[:1]))
        wait_until(made.is_whole)
        yield made


class _Sentinel(Server):
    """A Sentinel of a quorum of two; it keeps what it learns in its configuration file."""

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

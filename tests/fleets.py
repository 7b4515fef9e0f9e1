"""A primary and its replica on loopback for the tests, watched by Sentinels."""

import contextlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from service.processes import tied_command
from tests.certificates import Certificates
from tests.servers import wait_until
from tests.store_servers import Server, in_sync, is_loaded, online_replicas

SERVICE = "wager"
"""The service name in the Sentinels' configuration."""

_PEER, _PASSWORD = "peer", "secret"  # the user of replicas and Sentinels; clients send only the password


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

    def fail_overs(self) -> int:
        """Return how often the first Sentinel has seen another server become the primary."""
        return (self.sentinels[0]._folder / "server.log").read_text().count("+switch-master")

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
            in_step = not loaded or all(is_loaded(each) for each in others)
            return (
                in_step and online_replicas(primary) == 1 and all(_knows_all(sentinel) for sentinel in self.sentinels)
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
            wait_until(lambda: in_sync(servers[:1]))
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

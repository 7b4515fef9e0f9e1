"""The service under test, in a process of its own, with routes beside it that do nothing."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, FastAPI

from service.app import create_app
from service.replicas import snapshot_policy
from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest
from service.store.embedded.server import AppendFsync, EmbeddedServer

_BEAT_SECONDS = 0.002

_SNAPSHOT_AGE = "BENCH_SNAPSHOT_AGE"
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def app_with_floor() -> FastAPI:
    """The real application, and for each route its floor: the same request and answer models, nothing done."""
    snapshot_policy.SNAPSHOT_AGE = float(os.environ.get(_SNAPSHOT_AGE, snapshot_policy.SNAPSHOT_AGE))
    app = create_app()
    prediction = PredictAnswer(
        prediction_id="bench:AZ3kNDvx0000000000AA",
        model="bench",
        label="label-3",
        labels=None,
        propensity=0.905,
        rounds_seen=1000,
        expires_at=datetime(2026, 11, 21, 10, 11, 12, 345678, tzinfo=UTC),
    )

    routes = APIRouter(prefix="/floor")

    @routes.post("/predict")
    async def predict_floor(request: PredictRequest) -> PredictAnswer:
        del request
        return prediction

    @routes.post("/feedback")
    async def feedback_floor(request: FeedbackRequest) -> FeedbackAnswer:
        return FeedbackAnswer(str(request.prediction_id), correct=True, status="recorded", round=1000)

    app.include_router(_standstill_route())
    app.include_router(routes)
    app.router.routes.insert(0, app.router.routes.pop())  # those that come first are found soonest
    return app


class _Heartbeat:
    """Notes the most processor time that the event loop's thread takes from one beat to the next."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.thread_time()
        self._task: asyncio.Task[None] | None = None

    def restart(self) -> float:
        """The longest so far; from now on, anew."""
        if self._task is None:
            self._task = asyncio.create_task(self._beat())
        longest, self.longest, self._last = self.longest, 0.0, time.thread_time()
        return longest

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest, self._last = max(self.longest, now - self._last), now
            await asyncio.sleep(_BEAT_SECONDS)
            now = time.thread_time()
            self.longest, self._last = max(self.longest, now - self._last), now


def _standstill_route() -> APIRouter:
    routes, heartbeat = APIRouter(prefix="/bench"), _Heartbeat()

    @routes.post("/standstill")
    async def standstill() -> dict[str, float]:
        return {"cpu_seconds": heartbeat.restart()}

    return routes


class Server(NamedTuple):
    """A running service: one process for each port, on one store."""

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    store_url: str
    store_pid: int

    def busy_seconds(self) -> float:
        """Seconds on a processor that the workers have taken so far, all threads."""
        return sum(_busy_seconds(pid) for pid in self.pids)

    def store_busy_seconds(self) -> float:
        """Seconds on a processor that the store has taken so far, all threads."""
        return _busy_seconds(self.store_pid)

    @property
    def port(self) -> int:
        """Of the first worker."""
        return self.ports[0]


@contextlib.contextmanager
def running(
    workers: int = 1, appendfsync: AppendFsync = "everysec", snapshot_age: float | None = None
) -> Iterator[Server]:
    """So many workers on a fresh embedded store; all are gone afterwards.

    Args:
        workers: each on a port of its own.
        appendfsync: of the store.
        snapshot_age: the workers' `SNAPSHOT_AGE`, if it is to be another.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(EmbeddedServer(Path(folder), appendfsync))
        environment = os.environ | _ONE_THREAD | {"WAGER_STORE_URL": store.url, "WAGER_HOST": "127.0.0.1"}
        if snapshot_age is not None:
            environment[_SNAPSHOT_AGE] = str(snapshot_age)
        started = [stack.enter_context(_worker(environment)) for _ in range(workers)]
        for port, process in started:
            _wait_for(port, process)
        ports, processes = zip(*started, strict=True)
        yield Server(ports, tuple(process.pid for process in processes), store.url, store.pid or 0)


@contextlib.contextmanager
def _worker(environment: dict[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    application = ["benchmarks.server:app_with_floor", "--factory", "--port", str(port)]
    command = [sys.executable, "-m", "uvicorn", *application, "--no-access-log", "--log-level", "warning"]
    command += ["--timeout-graceful-shutdown", "1"]
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

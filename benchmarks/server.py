"""The service under test, in a process of its own, with routes beside it that do nothing."""

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

from fastapi import FastAPI

from service.app import create_app
from service.schemas import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest
from service.store.embedded import AppendFsync, EmbeddedServer

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def app_with_floor() -> FastAPI:
    """The real application, and for each route its floor: the same request and answer models, nothing done."""
    app = create_app()
    prediction = PredictAnswer(
        prediction_id="bench:AZ3kNDvx0000000000AA",
        model="bench",
        label="label-3",
        propensity=0.905,
        rounds_seen=1000,
        expires_at=datetime(2026, 11, 21, 10, 11, 12, 345678, tzinfo=UTC),
    )

    @app.post("/floor/predict")
    async def predict_floor(request: PredictRequest) -> PredictAnswer:
        del request
        return prediction.model_copy()

    @app.post("/floor/feedback")
    async def feedback_floor(request: FeedbackRequest) -> FeedbackAnswer:
        return FeedbackAnswer(prediction_id=request.prediction_id, correct=True, status="recorded", round=1000)

    return app


class Server(NamedTuple):
    """A running service: one process for each port, on one store."""

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    store_url: str

    @property
    def port(self) -> int:
        """Of the first worker."""
        return self.ports[0]


@contextlib.contextmanager
def running(workers: int = 1, appendfsync: AppendFsync = "everysec") -> Iterator[Server]:
    """So many workers on a fresh embedded store; all are gone afterwards."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(EmbeddedServer(Path(folder), appendfsync))
        started = [stack.enter_context(_worker(store.url)) for _ in range(workers)]
        for port, process in started:
            _wait_for(port, process)
        ports, processes = zip(*started, strict=True)
        yield Server(ports, tuple(process.pid for process in processes), store.url)


@contextlib.contextmanager
def _worker(store_url: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    application = ["benchmarks.server:app_with_floor", "--factory", "--port", str(port)]
    command = [sys.executable, "-m", "uvicorn", *application, "--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen(command, env=os.environ | _ONE_THREAD | {"WAGER_STORE_URL": store_url})
    try:
        yield port, process
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError("the service did not start")

"""The contest between Wager and its peers: one driver sends the same load and counts lost and repeated updates.

Every prediction gets its feedback once, then all feedback is sent again. Updates missing after the first pass count as
lost; updates that the second pass adds count as repeated.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import uvloop

from benchmarks.report import Row, seen
from benchmarks.server import Server
from benchmarks.traffic import CONNECTIONS, create_model, drive, feedback, predictions
from benchmarks.traffic import Played as Driven
from service.store.embedded.server import EmbeddedServer


class Peer(NamedTuple):
    """One way to serve a bandit, and its command."""

    name: str
    factory: str
    workers: int
    environment: dict[str, str]


_BLOB = "benchmarks.peers.blob:create_app"
PEERS = [
    *(Peer(f"Wager, {n} worker{'s' * (n > 1)}", "service.app:create_app", n, {}) for n in (1, 2)),
    Peer("FastAPI + Vowpal Wabbit in memory, 1 worker", "benchmarks.peers.vowpal:create_app", 1, {}),
    *(Peer(f"state in Redis, WATCH, {n} worker{'s' * (n > 1)}", _BLOB, n, {"PEER_WATCH": "1"}) for n in (1, 2)),
    *(Peer(f"state in Redis, no WATCH, {n} worker{'s' * (n > 1)}", _BLOB, n, {}) for n in (1, 2)),
]


_WARM_SECONDS = 4.0  # predictions before the clock starts, in which our workers load their kernels


class Played(NamedTuple):
    """The result of one peer."""

    predict_rate: float
    feedback_rate: float
    lost: int
    repeated: int


@contextlib.contextmanager
def running(peer: Peer) -> Iterator[Server]:
    """Run the peer on a fresh store."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as store:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
        options = ["--port", str(port), "--workers", str(peer.workers), "--no-access-log", "--log-level", "error"]
        command = [sys.executable, "-m", "uvicorn", peer.factory, "--factory", *options]
        environment = os.environ | peer.environment | {"WAGER_STORE_URL": store.url, "WAGER_HOST": "127.0.0.1"}
        environment["OPENBLAS_NUM_THREADS"] = "1"
        with subprocess.Popen(command, env=environment) as process:
            try:
                _wait_for(port)
                yield Server((port,), (process.pid,), store.url, store.pid or 0)
            finally:
                process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/models/nobody")
            return
        time.sleep(0.1)
    raise RuntimeError("the peer did not start")


def play(peer: Peer, n: int, seed: int) -> Played:
    """Send n predictions, and twice the feedback for each."""

    async def made(server: Server) -> Driven:
        warm = time.monotonic() + _WARM_SECONDS
        while time.monotonic() < warm:
            await drive(server.port, predictions(["bench"], n, seed + 1), CONNECTIONS)
        return await drive(server.port, predictions(["bench"], n, seed), CONNECTIONS)

    with running(peer) as server:
        if peer.factory.startswith("service"):
            create_model(server, "bench", algorithm="gaptron")
        predicted = uvloop.run(made(server))
        given, first = (
            uvloop.run(drive(server.port, feedback(predicted.answers), CONNECTIONS)),
            _updates(server),
        )
        uvloop.run(drive(server.port, feedback(predicted.answers), CONNECTIONS))
        return Played(predicted.rate, given.rate, n - first, _updates(server) - first)


def _updates(server: Server) -> int:
    """Return the model's count of its updates."""
    answer = httpx2.get(f"http://127.0.0.1:{server.port}/models/bench").raise_for_status()
    return int(json.loads(answer.content)["rounds_seen"])


def _row(peer: Peer, found: Played, ours: Played) -> Row:
    figure = (
        f"{found.predict_rate:,.0f} predict/s, {found.feedback_rate:,.0f} feedback/s; "
        f"{found.lost:,} updates lost, {found.repeated:,} repeated"
    )
    baseline = f"Wager, 1 worker: {ours.predict_rate:,.0f} and {ours.feedback_rate:,.0f}"
    return seen(peer.name, figure, baseline, _both(found) / _both(ours))


def _both(found: Played) -> float:
    """Return the decisions per second, each a prediction and its feedback."""
    return 1.0 / (1.0 / found.predict_rate + 1.0 / found.feedback_rate)


def rows(n: int = 3_000) -> list[Row]:
    """Compare the decisions per second of every peer with one Wager worker."""
    played = [play(peer, n, seed=1) for peer in PEERS]
    return [_row(peer, found, played[0]) for peer, found in zip(PEERS, played, strict=True)]

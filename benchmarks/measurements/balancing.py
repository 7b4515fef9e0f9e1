"""Two workers and many models through HAProxy: balanced by connections, and by the model's name."""

import tempfile
from pathlib import Path

from benchmarks.balancer import balancing, installed
from benchmarks.cost import Meters
from benchmarks.measurements.hot import cost_of_decisions
from benchmarks.report import Row, seen
from benchmarks.server import Server, running
from benchmarks.traffic import create_model

WORKERS, MODELS = 2, [f"m{i}" for i in range(10)]


def rows(n: int = 8_000) -> list[Row]:
    """Return the costs of a decision; no rows if HAProxy is not installed."""
    if not installed():
        return []
    with running(WORKERS) as server:
        for model in MODELS:
            create_model(server, model, algorithm="gaptron")
        found = {balance: _measure(server, balance, n) for balance in ("connections", "model")}
    return [_row(balance, each, found["connections"]) for balance, each in found.items()]


def _measure(server: Server, balance: str, n: int) -> Meters:
    with tempfile.TemporaryDirectory() as folder, balancing(Path(folder), server.ports, balance) as port:
        return cost_of_decisions(server._replace(ports=(port,)), n, MODELS)


def _row(balance: str, found: Meters, by_connections: Meters) -> Row:
    return seen(
        f"{WORKERS} workers, {len(MODELS)} models, balanced by {balance}",
        _costs(found),
        _costs(by_connections),
        by_connections.worker_seconds / found.worker_seconds,
    )


def _costs(cost: Meters) -> str:
    worker, store = cost.worker_seconds * 1e6, cost.store_seconds * 1e6
    return f"worker {worker:,.0f} µs, store {store:,.0f} µs, {cost.commands:.2f} commands, {cost.bytes:,.0f} bytes"

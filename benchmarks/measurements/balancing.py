"""Two workers and many models through HAProxy: balanced by connections, and by the model's name."""

import tempfile
from pathlib import Path

from benchmarks.balancer import balancing, installed
from benchmarks.measurements.http import create_model
from benchmarks.measurements.scale import Measured, measure
from benchmarks.report import Row, seen
from benchmarks.server import Server, running

WORKERS, MODELS = 2, 100


def rows(n: int = 8_000) -> list[Row]:
    """Return the costs of a decision; no rows if HAProxy is not installed."""
    if not installed():
        return []
    with running(WORKERS) as server:
        for i in range(MODELS):
            create_model(server, f"m{i}", algorithm="gaptron")
        found = {balance: _measure(server, balance, n) for balance in ("connections", "model")}
    return [_row(balance, each, found["connections"]) for balance, each in found.items()]


def _measure(server: Server, balance: str, n: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder, balancing(Path(folder), server.ports, balance) as port:
        balanced = server._replace(ports=(port,))
        measure(balanced, MODELS, n // 4, seed=99)
        server.wait_until_quiet()
        return measure(balanced, MODELS, n, seed=1)


def _row(balance: str, found: Measured, by_connections: Measured) -> Row:
    return seen(
        f"{WORKERS} workers, {MODELS} models, balanced by {balance}",
        _costs(found),
        _costs(by_connections),
        by_connections.cost.worker_seconds / found.cost.worker_seconds,
    )


def _costs(found: Measured) -> str:
    cost = found.cost
    worker, store = cost.worker_seconds * 1e6, cost.store_seconds * 1e6
    return f"worker {worker:,.0f} µs, store {store:,.0f} µs, {cost.commands:.2f} commands, {cost.bytes:,.0f} bytes"

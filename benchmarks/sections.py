"""The sections of the table, in the order they are printed; a new benchmark is one more line."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks import durability, fold, history, http, scale, simulation
from benchmarks.report import Row

Rows = Callable[[], Sequence[Row]]


class Section(NamedTuple):
    """Benchmarks that belong together."""

    title: str
    rows: Rows
    quick: Rows | None = None  # seconds, for a look whether something broke; the same rows, less exact


SECTIONS = {
    "fold": Section("Folds, one core", fold.rows, partial(fold.rows, n=5_000)),
    "simulation": Section("Simulations, one core", simulation.rows, partial(simulation.rows, n=5_000)),
    "http": Section("Single requests", http.rows, partial(http.rows, n=1_000)),
    "scale": Section("Workers and models", scale.rows),
    "history": Section("History is free", history.rows),
    "durability": Section("What an acknowledgement survives", durability.rows),
}

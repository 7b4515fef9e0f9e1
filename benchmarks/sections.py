"""The sections in printing order. A new benchmark adds one line, and its page to benchmarks/results."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.actions import requests
from benchmarks.measurements import (
    balancing,
    batches,
    blocking,
    capacity,
    costliest,
    durability,
    fold,
    history,
    http,
    latency,
    many,
    simulation,
    standstill,
    startup,
    tenants,
    vectors,
)
from benchmarks.peers import contest
from benchmarks.report import Row
from benchmarks.soak import soak

Rows = Callable[[], Sequence[Row]]


class Section(NamedTuple):
    """Benchmarks that belong together."""

    title: str
    rows: Rows
    quick: Rows | None = None  # takes seconds and shows whether something broke: the same rows, less exact
    long: Rows | None = None  # takes minutes longer: sizes that the default table leaves out


SECTIONS = {
    "fold": Section("Folds, one core", fold.rows, partial(fold.rows, n=5_000)),
    "simulation": Section("Simulations, one core", simulation.rows, partial(simulation.rows, n=5_000)),
    "http": Section("Single requests", http.rows, partial(http.rows, n=200, turns=1, models=20, retained=2_000)),
    "actions": Section("Actions with features", requests.rows, partial(requests.rows, n=200)),
    "vectors": Section("Embeddings", vectors.rows, partial(vectors.rows, n=20)),
    "latency": Section("Latency at a given rate", latency.rows, partial(latency.rows, seconds=2.0, n=4_000)),
    "batches": Section("Batches", batches.rows, partial(batches.rows, batches=8)),
    "peers": Section("Peers over HTTP, one driver", contest.rows, partial(contest.rows, n=500)),
    "startup": Section("Time to the first answer", startup.rows),
    "standstill": Section(
        "Standstills", standstill.rows, partial(standstill.rows, seconds=3.0), partial(standstill.rows, seconds=600.0)
    ),
    "blocking": Section("Nothing blocks", blocking.rows),
    "costliest": Section("The costliest models", costliest.rows),
    "tenants": Section("Tenants", tenants.rows, partial(tenants.rows, seconds=1.0, turns=2)),
    "balancing": Section("Models balanced by name", balancing.rows),
    "many": Section("Ten thousand models", many.rows, partial(many.rows, models=200, active=50, n=1_000)),
    "history": Section(
        "History is free",
        history.rows,
        quick=partial(history.rows, lengths=(20_000,), n=500, repeats=3, starts=5),
        long=partial(history.rows, lengths=history.LONG),
    ),
    "capacity": Section("What a load needs", capacity.rows, partial(capacity.rows, n=2_000)),
    "soak": Section("Soak", soak.rows, long=partial(soak.rows, seconds=soak.HOUR, warm_up=soak.WARM_UP_SECONDS)),
    "durability": Section("The cost of durability", durability.rows),
}

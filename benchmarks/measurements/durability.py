"""The cost of durable acknowledgements: no fsync, one per second, one per write."""

from typing import get_args

import numpy as np

from benchmarks.measurements.http import CONNECTIONS, REPEATS, SERVICE, SMALL, by_own_driver, create_model
from benchmarks.report import Row, seen
from benchmarks.server import running, running_baseline
from service.store.embedded.server import AppendFsync

_PATHS = ("/predict", "/feedback")
_LEAST: AppendFsync = "no"


def rates(setting: AppendFsync, n: int) -> list[float]:
    """Return the rate of each path, as a share of the plain FastAPI application's."""
    with running(appendfsync=setting) as server, running_baseline("plain_fastapi") as plain:
        create_model(server, "bench", algorithm="gaptron")
        servers = {SERVICE: server, "FastAPI": plain}
        by_own_driver(servers, "bench", n // 5, 99, SMALL)
        runs = [by_own_driver(servers, "bench", n, seed, SMALL) for seed in range(REPEATS)]
    return [float(np.median([run[path][SERVICE].rate / run[path]["FastAPI"].rate for run in runs])) for path in _PATHS]


def rows(n: int = 2_000) -> list[Row]:
    """Return a row for each setting and path, compared with the same path without fsync."""
    taken = {setting: rates(setting, n) for setting in sorted(get_args(AppendFsync), key=lambda name: name != _LEAST)}
    return [
        seen(
            f"POST {path}, {CONNECTIONS} connections, appendfsync {setting}",
            f"{shares[i]:.2f} of a plain FastAPI application",
            f"{taken[_LEAST][i]:.2f} with appendfsync {_LEAST}",
            shares[i] / taken[_LEAST][i],
        )
        for setting, shares in taken.items()
        for i, path in enumerate(_PATHS)
    ]

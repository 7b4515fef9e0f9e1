"""The cost of durable acknowledgements: no fsync, one per second, one per write."""

from typing import get_args

import numpy as np

from benchmarks.do_nothing import PREFIX
from benchmarks.measurements.http import CONNECTIONS, REPEATS, create_model, play
from benchmarks.report import Row, seen
from benchmarks.server import running
from service.store.embedded.server import AppendFsync

_PATHS = ("/predict", "/feedback")
_LEAST: AppendFsync = "no"


def rates(setting: AppendFsync, n: int) -> list[float]:
    """Return the rate of each path, as a share of the do-nothing route's."""
    with running(appendfsync=setting) as server:
        create_model(server, "bench", algorithm="gaptron")
        play(server, "bench", n // 5, seed=99)
        runs = [play(server, "bench", n, seed) for seed in range(REPEATS)]
    return [float(np.median([run[path].rate / run[PREFIX + path].rate for run in runs])) for path in _PATHS]


def rows(n: int = 2_000) -> list[Row]:
    """Return a row for each setting and path, compared with the same path without fsync."""
    taken = {setting: rates(setting, n) for setting in sorted(get_args(AppendFsync), key=lambda name: name != _LEAST)}
    return [
        seen(
            f"POST {path}, {CONNECTIONS} connections, appendfsync {setting}",
            f"{shares[i]:.2f} of the do-nothing route",
            f"{taken[_LEAST][i]:.2f} with appendfsync {_LEAST}",
            shares[i] / taken[_LEAST][i],
        )
        for setting, shares in taken.items()
        for i, path in enumerate(_PATHS)
    ]

"""The cost of durable acknowledgements: no fsync, one per second, one per write."""

import contextlib
from typing import get_args

import numpy as np
import uvloop

from benchmarks.measurements.hot import CONNECTIONS, MODEL, play
from benchmarks.report import Row, seen
from benchmarks.server import running
from benchmarks.traffic import REPEATS, create_model
from service.store.embedded.server import AppendFsync

_SETTINGS: list[AppendFsync] = sorted(get_args(AppendFsync), key=lambda name: name != "no")


def rows(n: int = 2_000) -> list[Row]:
    """Return a row for each setting, compared with no fsync. A ratio is the median of turns, as other load varies."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(running(appendfsync=setting)) for setting in _SETTINGS]
        for server in servers:
            create_model(server, MODEL, algorithm="gaptron")
            uvloop.run(play(server, n // 2, seed=99))
        seconds = np.array([[uvloop.run(play(each, n, seed)).seconds for each in servers] for seed in range(REPEATS)])
    rates, ratios = np.median(n / seconds, axis=0), np.median(seconds[:, :1] / seconds, axis=0)
    return [
        seen(
            f"predictions and feedback in turn, {CONNECTIONS} connections, appendfsync {setting}",
            f"{rate:,.0f} decisions/s",
            f"{rates[0]:,.0f} decisions/s with appendfsync {_SETTINGS[0]}",
            float(ratio),
        )
        for setting, rate, ratio in zip(_SETTINGS, rates, ratios, strict=True)
    ]

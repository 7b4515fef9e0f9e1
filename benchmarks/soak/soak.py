"""An hour at half the load that a worker can take: memory, descriptors, log length and latency must stay flat.

A slope per hour has a 95 % interval (`benchmarks.soak.trend`). The first minutes do not count: until then, the store
forgets no prediction. A plain application on the same machine gets a few requests throughout; the trend of its latency
shows what the machine does.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import httpx2
import numpy as np
import uvloop

from benchmarks.report import Row, print_rows, seen
from benchmarks.server import Server, running, running_baseline
from benchmarks.soak.load import GUESTS, STEADY, Load, capacity, definition, prediction_bodies
from benchmarks.soak.samples import Usage, read_usage
from benchmarks.soak.trend import Trend, trend
from benchmarks.traffic import CONNECTIONS
from toolkit.load.client import Client, Target
from toolkit.load.loops import Pace, Requests, open_loop

SHARE = 0.5  # of the capacity
SLICE_SECONDS = 10.0
WARM_UP_SECONDS = 300.0
FLAT = 0.02
"""Allowed growth per hour, as a share of the level."""

FLAT_LATENCY = 0.2
_BASELINE_RATE = 40.0
LAUNCHER = ("benchmarks.soak.forgetful",)
_MIB = 2.0**20


class Sample(NamedTuple):
    """The measurements of a slice."""

    at: float  # hours since the start
    usage: Usage
    spent: float  # microseconds of the worker's processor time per request
    predict: float  # p99, milliseconds
    feedback: float  # p99, milliseconds
    baseline: float  # p99 of the plain application, milliseconds


class Soak(NamedTuple):
    """A finished soak."""

    rate: float  # predictions per second
    requests: int
    refused: int  # or unanswered
    samples: Sequence[Sample]


async def play(server: Server, plain: Server, seconds: float, n: int) -> Soak:
    """Load a worker until the time is up.

    Args:
        server: the worker, with the steady models.
        plain: the plain application.
        seconds: duration without the measurement of the capacity.
        n: predictions that measure the capacity.
    """
    service, baseline = (Client(Target.parse(f"http://127.0.0.1:{each.port}"), CONNECTIONS) for each in (server, plain))
    async with service, baseline:
        rate = SHARE * await capacity(service, n)
        load, samples, began = Load(service, rate, SLICE_SECONDS), list[Sample](), time.monotonic()
        before, requests, refused = read_usage(server), 0, 0
        while time.monotonic() < began + seconds:
            taken, p99 = await asyncio.gather(load.take_slice(len(samples)), _baseline_p99(baseline, len(samples)))
            answered, usage = (
                taken.predict.answered + taken.feedback.answered,
                await asyncio.to_thread(read_usage, server),
            )
            spent = 1e6 * (usage.worker_seconds - before.worker_seconds) / answered
            predict, feedback = (1e3 * each.latency.percentile(99) for each in taken)
            samples.append(Sample((time.monotonic() - began) / 3600, usage, spent, predict, feedback, p99))
            requests, before = requests + answered, usage
            refused += sum(each.refused + each.no_answer + each.not_sent for each in taken)
    return Soak(rate, requests, refused, samples)


async def _baseline_p99(baseline: Client, seed: int) -> float:
    compared = Requests("POST", "/predict", itertools.cycle(prediction_bodies()))
    found, _ = await open_loop(baseline, compared, Pace(_BASELINE_RATE, SLICE_SECONDS, seed=seed))
    return 1e3 * found.latency.percentile(99)


class _Measure(NamedTuple):
    what: str
    unit: str
    of: Callable[[Sample], float]
    allowed: float | None  # growth per hour, as a share of the level


_MEASURES = (
    _Measure("memory of the worker", "MiB", lambda it: it.usage.worker_memory / _MIB, FLAT),
    _Measure("open file descriptors of the worker", "", lambda it: it.usage.worker_descriptors, FLAT),
    _Measure("threads of the worker", "", lambda it: it.usage.worker_threads, FLAT),
    _Measure("memory of the store", "MiB", lambda it: it.usage.store_memory / _MIB, FLAT),
    _Measure("keys in the store", "", lambda it: it.usage.store_keys, FLAT),
    _Measure("entries in all logs", "", lambda it: it.usage.log_entries, FLAT),
    _Measure("the worker's processor time per request", "µs", lambda it: it.spent, FLAT_LATENCY),
    _Measure("p99 of /predict", "ms", lambda it: it.predict, FLAT_LATENCY),
    _Measure("p99 of /feedback", "ms", lambda it: it.feedback, FLAT_LATENCY),
    _Measure(f"p99 of a plain application at {_BASELINE_RATE:g}/s", "ms", lambda it: it.baseline, None),
)


def rows_of(soak: Soak, warm_up: float) -> list[Row]:
    """Return the trends without the warm-up, in seconds.

    Raises:
        ValueError: if fewer than three samples remain.
    """
    kept = [each for each in soak.samples if each.at * 3600 > warm_up]
    times = np.array([each.at for each in kept])
    rows = [_row(each, trend(times, np.array([each.of(sample) for sample in kept]))) for each in _MEASURES]
    load = f"{soak.rate:,.0f} predictions/s, {len(STEADY)} models and {GUESTS} that come and go"
    figure = f"{soak.requests:,} requests, {soak.refused:,} refused or unanswered"
    return [Row(f"load: {load}", figure, f"{len(kept)} samples", math.nan, "0 refused", not soak.refused), *rows]


def _row(measure: _Measure, found: Trend) -> Row:
    unit = f" {measure.unit}".rstrip()
    slope = f"{found.slope:+,.2f} ± {found.half_width:,.2f}{unit} per hour"
    figure = f"{found.level:,.2f}{unit}; {slope}"
    if measure.allowed is None:
        return seen(measure.what, figure, "", found.relative)
    wanted, met = f"≤ {measure.allowed:g} per hour", found.relative <= measure.allowed
    return Row(measure.what, figure, "", found.relative, wanted, met, travels=False)


def rows(seconds: float = 120.0, warm_up: float = 20.0, n: int = 8_000) -> list[Row]:
    """Return the table of trends."""
    with running(launcher=LAUNCHER) as server, running_baseline() as plain:
        for name, special in STEADY.items():
            body = definition(name, special)
            httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()
        server.wait_until_quiet()
        soak = uvloop.run(play(server, plain, seconds, n))
    return rows_of(soak, warm_up)


if __name__ == "__main__":
    print_rows("Soak", rows())

"""An hour at a third of the load that a worker can take: memory, descriptors, log length and latency must stay flat.

A slope per hour has a 95 % interval (`benchmarks.soak.trend`). The first minutes do not count: until then, the store
forgets no prediction. A plain application on the same machine gets a few requests throughout; the trend of its latency
shows what the machine does. A worker of the version before serves other models on the same store.

Keys hold blocks of predictions, and a faster machine stores fewer of them in a block. So keys are counted per block
that was made while the store kept it: that ratio is about 1, and grows only if something stays. A log is trimmed when
a snapshot is stored, so its rounds are counted up to the latest snapshot; those after it have a maximum. At the end, no
prediction is open when all have expired.
"""

import asyncio
import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import uvloop

from benchmarks.report import Row, print_rows, seen
from benchmarks.server import Server, running, running_baseline, running_beside
from benchmarks.soak.forgetful import FORGET_AFTER
from benchmarks.soak.load import (
    FLAG,
    FLAG_SHARE,
    FORMER,
    FORMER_SHARE,
    GUESTS,
    STEADY,
    WINDOW,
    Guests,
    Load,
    Slice,
    call,
    capacity,
    create_models,
    evaluation_bodies,
    prediction_bodies,
)
from benchmarks.soak.samples import StoreUsage, WorkerUsage, read_store, read_worker
from benchmarks.soak.trend import Trend, trend
from benchmarks.traffic import CONNECTIONS
from service.background.upkeep import SNAPSHOT_EVERY
from toolkit.load.client import Client, Target
from toolkit.load.loops import Pace, Requests, open_loop

SHARE = 0.35  # of the capacity; with the flag, the shadows and the other worker, about half of the machine
SLICE_SECONDS = 10.0
WARM_UP_SECONDS = 300.0
HOUR = 3_600.0
FLAT = 0.02
"""Allowed growth per hour, as a share of the level."""

FLAT_LATENCY = 0.2
UNFOLDED = 2 * SNAPSHOT_EVERY
"""Allowed rounds of a model after its latest snapshot."""

_BASELINE_RATE = 40.0
_SURPLUS = 5.0  # seconds
LAUNCHER = ("benchmarks.soak.forgetful",)
KEPT_SLICES = round((WINDOW + FORGET_AFTER) / SLICE_SECONDS)
"""Slices for which the store keeps a prediction."""

_MIB = 2.0**20


class Sample(NamedTuple):
    """The measurements of a slice."""

    at: float  # hours since the start
    worker: WorkerUsage
    former: WorkerUsage  # of the worker of the former version
    store: StoreUsage
    blocks: int  # keys that hold the predictions of the last `KEPT_SLICES` slices
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
    left_open: float  # bytes of open predictions when all have expired


class Fleet(NamedTuple):
    """What runs."""

    server: Server  # the worker, whose capacity is measured
    former: Server  # the worker of the former version
    plain: Server  # the plain application


class Loads(NamedTuple):
    """All clients."""

    steady: Load
    flag: Load
    former: Load
    guests: Guests

    async def take_slice(self, seed: int) -> tuple[Slice, Slice, Slice]:
        """Make predictions and evaluations, give feedback, and change the guests."""
        each = (self.steady.take_slice(seed), self.flag.take_slice(seed), self.former.take_slice(seed))
        taken = asyncio.gather(*each)
        _, slices = await asyncio.gather(self.guests.change(), taken)
        return slices


async def play(fleet: Fleet, seconds: float, n: int) -> Soak:
    """Load two workers until the time is up.

    Args:
        fleet: the servers.
        seconds: duration without the measurement of the capacity.
        n: predictions that measure the capacity.
    """
    async with contextlib.AsyncExitStack() as stack:
        targets = [Target.parse(f"http://127.0.0.1:{each.port}") for each in fleet]
        service, former, baseline = [await stack.enter_async_context(Client(each, CONNECTIONS)) for each in targets]
        for client, models in ((service, {**STEADY, "flag": FLAG}), (former, FORMER)):
            await create_models(client, models)
            await call(client, "POST", "/bench/threads")
        await asyncio.to_thread(fleet.server.wait_until_quiet)
        await asyncio.to_thread(fleet.former.wait_until_quiet)
        rate = SHARE * await capacity(service, n)
        loads = Loads(
            Load(service, "/predict", prediction_bodies(), rate, SLICE_SECONDS),
            Load(service, "/ofrep/v1/evaluate/flags/flag", evaluation_bodies(), FLAG_SHARE * rate, SLICE_SECONDS),
            Load(former, "/predict", prediction_bodies(FORMER), FORMER_SHARE * rate, SLICE_SECONDS),
            Guests(service),
        )
        requests, refused, samples = await _sample(fleet, loads, former, baseline, seconds)
        await asyncio.sleep(WINDOW + FORGET_AFTER + _SURPLUS)
        return Soak(rate, requests, refused, samples, await _open_bytes(service))


async def _open_bytes(service: Client) -> float:
    """Return the bytes of the open predictions of all models."""
    lines = (await call(service, "GET", "/metrics")).decode().splitlines()
    counted = [float(line.split()[-1]) for line in lines if line.startswith("wager_open_predictions_bytes{")]
    if len(counted) < len(STEADY):
        raise RuntimeError(f"/metrics has {len(counted)} models")
    return sum(counted)


async def _sample(
    fleet: Fleet, loads: Loads, former: Client, baseline: Client, seconds: float
) -> tuple[int, int, list[Sample]]:
    samples, blocks, began = list[Sample](), deque[int](maxlen=KEPT_SLICES), time.monotonic()
    before, requests, refused = read_worker(fleet.server), 0, 0
    while time.monotonic() < began + seconds:
        number = len(samples)
        slices, p99 = await asyncio.gather(loads.take_slice(number), _baseline_p99(baseline, number))
        await _check_refusal(former)
        usage, beside = read_worker(fleet.server), read_worker(fleet.former)
        store = await asyncio.to_thread(read_store, fleet.server.store_url)
        spent = 1e6 * (usage.seconds - before.seconds) / sum(each.answered for each in slices[:2])
        blocks.append(sum(each.blocks for each in slices))
        predict, feedback = (1e3 * each.latency.percentile(99) for each in slices[0][:2])
        at = (time.monotonic() - began) / 3600
        samples.append(Sample(at, usage, beside, store, sum(blocks), spent, predict, feedback, p99))
        before, requests = usage, requests + sum(each.answered for each in slices)
        refused += sum(each.failed for each in slices)
    return requests, refused, samples


async def _check_refusal(former: Client) -> None:
    """Ask the worker of the former version for a model that the later one has written to.

    Raises:
        RuntimeError: if it does not refuse.
    """
    answer = await former.call("POST", "/predict", prediction_bodies()[0])
    if b"newer-version" not in answer.body:
        raise RuntimeError(f"a model of the later version got {answer}")


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
    _Measure("memory of the worker", "MiB", lambda it: it.worker.memory / _MIB, FLAT),
    _Measure("open file descriptors of the worker", "", lambda it: it.worker.descriptors, FLAT),
    _Measure("threads of the worker", "", lambda it: it.worker.threads, FLAT),
    _Measure("memory of the worker of the former version", "MiB", lambda it: it.former.memory / _MIB, FLAT),
    _Measure("its open file descriptors", "", lambda it: it.former.descriptors, FLAT),
    _Measure("its threads", "", lambda it: it.former.threads, FLAT),
    _Measure("memory of the store", "MiB", lambda it: it.store.memory / _MIB, FLAT),
    _Measure("keys in the store per block that it keeps", "", lambda it: it.store.keys / it.blocks, FLAT),
    _Measure("rounds in all logs up to the latest snapshots", "", lambda it: it.store.retained, FLAT),
    _Measure("the worker's processor time per request", "µs", lambda it: it.spent, FLAT_LATENCY),
    _Measure("p99 of /predict", "ms", lambda it: it.predict, FLAT_LATENCY),
    _Measure("p99 of /feedback", "ms", lambda it: it.feedback, FLAT_LATENCY),
    _Measure(f"p99 of a plain application at {_BASELINE_RATE:g}/s", "ms", lambda it: it.baseline, None),
)


def rows_of(soak: Soak, warm_up: float, is_short: bool) -> list[Row]:
    """Return the trends without the warm-up, in seconds.

    A few minutes do not tell a slope to within some percent per hour, so they must only not show a larger one.

    Raises:
        ValueError: if fewer than three samples remain.
    """
    kept = [each for each in soak.samples if each.at * 3600 > warm_up]
    times = np.array([each.at for each in kept])
    rows = [_row(each, trend(times, np.array([each.of(sample) for sample in kept])), is_short) for each in _MEASURES]
    load = f"{soak.rate:,.0f} predictions/s, {len(STEADY) + len(FORMER) + 1} models and {GUESTS} that come and go"
    figure = f"{soak.requests:,} requests, {soak.refused:,} refused or unanswered"
    first = Row(f"load: {load}", figure, f"{len(kept)} samples", math.nan, "0 refused", not soak.refused)
    return [first, *rows, *_bounds(soak, kept)]


def _bounds(soak: Soak, kept: Sequence[Sample]) -> list[Row]:
    most, left = max(each.store.unfolded for each in kept), soak.left_open
    limit = f"≤ {UNFOLDED:,}"
    return [
        Row("most rounds of a model after its latest snapshot", f"{most:,}", "", math.nan, limit, most <= UNFOLDED),
        Row("bytes of open predictions when all have expired", f"{left:,.0f}", "", math.nan, "0", not left),
    ]


def _row(measure: _Measure, found: Trend, is_short: bool) -> Row:
    unit = f" {measure.unit}".rstrip()
    slope = f"{found.slope:+,.2f} ± {found.half_width:,.2f}{unit} per hour"
    figure = f"{found.level:,.2f}{unit}; {slope}"
    if measure.allowed is None:
        return seen(measure.what, figure, "", found.relative)
    wanted, judged = f"≤ {measure.allowed:g} per hour", found.least if is_short else found.relative
    wanted, met = f"{wanted} at the lower end" if is_short else wanted, judged <= measure.allowed
    return Row(measure.what, figure, "", found.relative, wanted, met, travels=False)


def rows(seconds: float = 300.0, warm_up: float = 180.0, n: int = 8_000) -> list[Row]:
    """Return the table of trends."""
    with (
        running(launcher=(*LAUNCHER, "next")) as server,
        running_beside(server, LAUNCHER) as former,
        running_baseline() as plain,
    ):
        soak = uvloop.run(play(Fleet(server, former, plain), seconds, n))
    return rows_of(soak, warm_up, seconds < HOUR)


if __name__ == "__main__":
    print_rows("Soak", rows())

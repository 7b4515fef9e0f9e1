"""Latencies at a given rate, from the moment each request was due, compared with a plain FastAPI application.

An open loop sends requests at the times of a Poisson process, even while earlier ones are unanswered. Its rate is a
share of what the plain application, which does nothing, answers in a closed loop. The driver is this process and the
service another one: on a machine with few cores they compete, and a row says if the driver could not keep its schedule.
"""

import itertools
import math
import time
from dataclasses import dataclass, field

import uvloop

from benchmarks.report import Row, at_most, print_rows, seen
from benchmarks.server import running, running_baseline
from benchmarks.traffic import CONNECTIONS, create_model, feedback_bodies, prediction_bodies
from toolkit.load import report
from toolkit.load.client import Client, Target
from toolkit.load.loops import Pace, Requests, closed_loop, open_loop
from toolkit.load.timing import Histogram, Measured

SHARE = 0.7  # of the baseline's capacity
ROUNDS = 3  # turns of each path
WANTED = {99.0: 1.5, 99.9: 2.0}  # largest allowed multiples of the baseline's percentiles
PATHS = ("/predict", "/feedback")
MODEL = "latency"
_LARGEST_RATE = 20_000  # requests per second; bounds the number of bodies, which are made before the clock starts


@dataclass
class Path:
    """The measurements of one path, over all its turns."""

    measured: Measured = field(default_factory=Measured)
    lag: Histogram = field(default_factory=Histogram)
    busy: float = 0.0  # largest share of a core that the driver used in a turn

    @property
    def saturated(self) -> bool:
        """Whether the driver could not keep its own schedule."""
        return self.busy > report.BUSY or self.lag.percentile(99) > report.LATE_SECONDS

    async def take(self, client: Client, requests: Requests, pace: Pace) -> None:
        """Measure one turn.

        Raises:
            RuntimeError: if a request was refused or had no answer, as failures have no latency.
        """
        began, busy = time.perf_counter(), time.process_time()
        measured, lag = await open_loop(client, requests, pace)
        self.busy = max(self.busy, (time.process_time() - busy) / (time.perf_counter() - began))
        if measured.refused or measured.no_answer:
            raise RuntimeError(f"{requests.path}: {measured.refused} refused, {measured.no_answer} without an answer")
        self.measured.merge(measured)
        self.lag.merge(lag)


async def capacity(baseline: Client, n: int) -> float:
    """Return the requests per second that the baseline answers in a closed loop over `CONNECTIONS`."""
    for count in (n // 4, n):  # the first warms up
        requests = Requests("POST", "/predict", prediction_bodies([MODEL], count, seed=1))
        found = await closed_loop(baseline, requests.encoded(baseline.target), CONNECTIONS)
    return found.achieved


async def measure(ports: tuple[int, int], seconds: float, n: int) -> tuple[float, dict[str, tuple[Path, Path]]]:
    """Return the offered rate, and the measurements of each path of the service and of the baseline, taken in turns."""
    service, baseline = (Client(Target.parse(f"http://127.0.0.1:{port}"), CONNECTIONS) for port in ports)
    async with service, baseline:
        rate = SHARE * min(await capacity(baseline, n), _LARGEST_RATE)
        paths = {path: (Path(), Path()) for path in PATHS}
        bodies = prediction_bodies([MODEL], 1_000, seed=1)
        for seed in range(ROUNDS):
            pace, answers = Pace(rate, seconds, seed=seed), list[bytes]()
            predict = Requests("POST", "/predict", itertools.cycle(bodies), answers.append)
            await paths["/predict"][0].take(service, predict, pace)
            await paths["/predict"][1].take(baseline, predict._replace(keep=None), pace)
            given = feedback_bodies(answers)  # one per due request: the same seed gives the same times
            for path, client in zip(paths["/feedback"], (service, baseline), strict=True):
                await path.take(client, Requests("POST", "/feedback", given), pace)
    return rate, paths


def path_rows(name: str, path: Path, baseline: Path) -> list[Row]:
    """Return the percentiles of a path, compared with the baseline's."""
    table = []
    for percent in (50.0, 99.0, 99.9):
        ms, baseline_ms = (1000 * each.measured.latency.percentile(percent) for each in (path, baseline))
        row = at_most(f"POST {name}, p{percent:g}", ms, baseline_ms, "ms", WANTED.get(percent, math.inf))
        row = row if percent in WANTED else seen(row.what, row.figure, row.baseline, row.ratio)
        table.append(row._replace(figure=row.figure + _remarks(path), baseline=row.baseline + _remarks(baseline)))
    return table


def _remarks(path: Path) -> str:
    remarks = "; the driver was saturated" if path.saturated else ""
    return remarks + (f"; {path.measured.not_sent:,} not sent" if path.measured.not_sent else "")


def rows(seconds: float = 8.0, n: int = 20_000) -> list[Row]:
    """Return the table of latencies."""
    with running() as server, running_baseline() as plain:
        create_model(server, MODEL, algorithm="fastcb")
        rate, paths = uvloop.run(measure((server.port, plain.port), seconds, n))
    measured = [each for pair in paths.values() for each in pair]
    busy, late = max(path.busy for path in measured), max(path.lag.percentile(99) for path in measured)
    return [
        seen(
            f"offered rate: {SHARE:.0%} of the plain application's throughput",
            f"{rate:,.0f} /s",
            f"driver: {busy:.0%} of a core, 1 in 100 requests at least {late * 1000:.2f} ms late",
        ),
        *(row for path in PATHS for row in path_rows(path, *paths[path])),
    ]


if __name__ == "__main__":
    print_rows("Latencies", rows())

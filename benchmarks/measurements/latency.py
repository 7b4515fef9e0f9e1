"""How long requests take at a given rate, from the moment each was due, beside routes that do nothing.

An open loop: requests are sent at the times of a Poisson process whatever becomes of the earlier ones, at a share of
what the do-nothing route answers in a closed loop. The driver is this process, the service another; on a machine with
few cores they compete, and the row tells whether the driver kept its own timetable.
"""

import itertools
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import uvloop

from benchmarks.measurements.http import CONNECTIONS, SMALL, create_model
from benchmarks.report import Row, at_most, print_rows, seen
from benchmarks.server import running
from service.load import report
from service.load.http.client import Client
from service.load.http.loops import Pace, Requests, closed_loop, open_loop
from service.load.http.target import Target
from service.load.timing.histogram import Histogram
from service.load.timing.measured import Measured

SHARE = 0.7  # of the do-nothing route's capacity
ROUNDS = 3  # of each path, in turns
WANTED = 2.0  # times the floor's p99, at most
MODEL = "latency"
_LARGEST_RATE = 20_000  # requests per second; bodies are made before the clock starts


@dataclass
class Path:
    """What was measured of one path, over all its turns."""

    measured: Measured = field(default_factory=Measured)
    lag: Histogram = field(default_factory=Histogram)
    busy: float = 0.0  # share of a core that the driver took, at most

    @property
    def saturated(self) -> bool:
        """Whether the driver could not keep up with its own timetable."""
        return self.busy > report.BUSY or self.lag.percentile(99) > report.LATE_SECONDS

    async def take(self, client: Client, requests: Requests, pace: Pace) -> None:
        """Measures one turn.

        Raises:
            RuntimeError: if a request was refused or had no answer: latencies of failures are none.
        """
        began, busy = time.perf_counter(), time.process_time()
        measured, lag = await open_loop(client, requests, pace)
        self.busy = max(self.busy, (time.process_time() - busy) / (time.perf_counter() - began))
        if measured.refused or measured.no_answer:
            raise RuntimeError(f"{requests.path}: {measured.refused} refused, {measured.no_answer} without an answer")
        self.measured.merge(measured)
        self.lag.merge(lag)


def prediction_bodies(n: int) -> list[bytes]:
    """N different bodies of predictions."""
    return [json.dumps({"model": MODEL, "context": context}).encode() for context in SMALL.contexts(n, seed=1)]


def feedback_bodies(answers: Iterable[bytes]) -> Iterator[bytes]:
    """Feedback for each prediction; one in three is right."""
    for i, answer in enumerate(answers):
        yield json.dumps({"prediction_id": json.loads(answer)["prediction_id"], "correct": i % 3 == 0}).encode()


async def capacity(client: Client, n: int) -> float:
    """Requests per second that the do-nothing route answers, when so many connections ask without a pause."""
    warming = Requests("POST", "/predict", prediction_bodies(n // 4))
    await closed_loop(client, warming.encoded(client.target), CONNECTIONS)
    measuring = Requests("POST", "/floor/predict", prediction_bodies(n))
    found = await closed_loop(client, measuring.encoded(client.target), CONNECTIONS)
    return found.achieved


async def measure(port: int, seconds: float, n: int) -> tuple[float, dict[str, Path]]:
    """The rate, and each path at it: a turn of each, then again."""
    async with Client(Target.parse(f"http://127.0.0.1:{port}"), CONNECTIONS) as client:
        rate = SHARE * min(await capacity(client, n), _LARGEST_RATE)
        paths = {path: Path() for path in ("/predict", "/floor/predict", "/feedback", "/floor/feedback")}
        bodies = prediction_bodies(1_000)
        for seed in range(ROUNDS):
            pace, answers = Pace(rate, seconds, seed=seed), list[bytes]()
            predict = Requests("POST", "/predict", itertools.cycle(bodies), answers.append)
            await paths["/predict"].take(client, predict, pace)
            await paths["/floor/predict"].take(client, predict._replace(path="/floor/predict", keep=None), pace)
            told = list(feedback_bodies(answers))  # as many as are due: the same seed, the same times
            for path in ("/feedback", "/floor/feedback"):
                await paths[path].take(client, Requests("POST", path, told), pace)
    return rate, paths


def path_rows(name: str, path: Path, floor: Path) -> list[Row]:
    """Percentiles of a path beside those of its floor; of p99 something is asked."""
    table = []
    for percent in (50.0, 99.0, 99.9):
        ms, floor_ms = (1000 * each.measured.latency.percentile(percent) for each in (path, floor))
        row = at_most(f"POST {name}, p{percent:g}", ms, floor_ms, "ms", WANTED)
        row = row if percent == 99.0 else seen(row.what, row.figure, row.floor, row.ratio)
        table.append(row._replace(figure=row.figure + _remarks(path), floor=row.floor + _remarks(floor)))
    return table


def _remarks(path: Path) -> str:
    remarks = "; the driver was saturated" if path.saturated else ""
    return remarks + (f"; {path.measured.not_sent:,} not sent" if path.measured.not_sent else "")


def rows(seconds: float = 8.0, n: int = 20_000) -> list[Row]:
    """The table of latencies."""
    with running() as server:
        create_model(server, MODEL, algorithm="gaptron")
        rate, paths = uvloop.run(measure(server.port, seconds, n))
    busy, late = max(path.busy for path in paths.values()), max(path.lag.percentile(99) for path in paths.values())
    return [
        seen(
            f"offered: {SHARE:.0%} of what the do-nothing route answers",
            f"{rate:,.0f} /s",
            f"driver: {busy:.0%} of a core, 1 in 100 requests {late * 1000:.2f} ms late or more",
        ),
        *path_rows("/predict", paths["/predict"], paths["/floor/predict"]),
        *path_rows("/feedback", paths["/feedback"], paths["/floor/feedback"]),
    ]


if __name__ == "__main__":
    print_rows("Latencies", rows())

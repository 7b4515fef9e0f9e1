"""Processor time, latency and rate of single requests, compared with a FastAPI application that does nothing.

Both run two workers that share a port, and are measured in turns by the same client: first predictions and feedback in
turn on each connection, then the same number of predictions, then their feedback, because processor time cannot be
divided between requests that run at the same time.
"""

import asyncio
import contextlib
import itertools
import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop
from redis.asyncio import Redis

from benchmarks.log_filler import World, environment, fill, fold, open_session, unwritten
from benchmarks.report import Row, at_most, print_rows
from benchmarks.server import Server, running_baseline, serving
from benchmarks.traffic import REPEATS, create_model, feedback, play, predictions
from toolkit.load.client import Client, Target

WORKERS = 2
ALGORITHMS = ("fastcb", "gaptron")
MODELS, RETAINED_OF_MANY = 300, 1_000
MOST_OF_P50, MOST_OF_STORE, MOST_IDLE_MIB = 1.6, 1.3, 170.0
BOTH, PREDICT, FEEDBACK = OPERATIONS = "/predict and /feedback in turn", "/predict", "/feedback"
SCRIPT = """
redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', 3600000)
return redis.call('HINCRBY', KEYS[1], 'predictions', 1)
"""
_RECORD_BYTES = 256  # about a stored prediction
_SECONDS_TO_CONNECT = 60.0


class Shape(NamedTuple):
    """A kind of traffic."""

    name: str
    connections: int
    many: bool  # whether requests are for all models in turn, instead of one
    most: float  # multiple of the baseline's processor time
    goal: float  # the same, not required


SHAPES = (
    Shape("alone", 1, many=False, most=1.4, goal=1.2),
    Shape("hot", 32, many=False, most=0.7, goal=0.5),
    Shape("many", 32, many=True, most=1.2, goal=1.0),  # last: its models also cause work in the background
)


class Cost(NamedTuple):
    """The cost of some requests, per request; times in µs."""

    worker: float  # processor time of all workers
    store: float  # processor time
    p50: float
    p50_of_feedback: float  # in between; NaN if there was none
    rate: float  # requests per second

    def __str__(self) -> str:
        store = f"; store {self.store:,.0f} µs" if self.store else ""
        between = "" if math.isnan(self.p50_of_feedback) else f" and {self.p50_of_feedback:,.0f}"
        return f"{self.worker:,.0f} µs{store}; p50 {self.p50:,.0f}{between} µs; {self.rate:,.0f} /s"


Costs = dict[str, Cost]
"""By operation."""

Names = dict[str, list[str]]
"""Models by algorithm."""


@contextlib.asynccontextmanager
async def connected(server: Server, n: int) -> AsyncIterator[list[list[Client]]]:
    """Open n connections, the same number to each worker; yield those of each. The system decides who accepts one.

    Raises:
        RuntimeError: if a worker accepts too few.
    """
    share, target = math.ceil(n / len(server.pids)), Target.parse(f"http://127.0.0.1:{server.port}")
    found: dict[int, list[Client]] = {pid: [] for pid in server.pids}
    deadline, declined = time.monotonic() + _SECONDS_TO_CONNECT, 0
    async with contextlib.AsyncExitStack() as stack:
        while sum(map(len, found.values())) < n:
            if time.monotonic() > deadline:
                raise RuntimeError(f"connections per worker: {[len(each) for each in found.values()]}")
            before = server.connections()
            client = await stack.enter_async_context(Client(target, 1))
            await client.call("GET", "/nothing")  # so that a worker has accepted it
            accepted = [pid for pid, now in server.connections().items() if now - before[pid]]
            if len(accepted) == 1 and len(found[accepted[0]]) < share:
                found[accepted[0]].append(client)
            else:
                declined += 1
                await asyncio.sleep(0.001 * declined)  # another worker may still be starting
        yield list(found.values())


async def measure(server: Server, shape: Shape, names: Sequence[str], n: int, seed: int) -> Costs:
    """Measure n predictions and their feedback in turn, then n predictions, then their feedback."""
    async with connected(server, shape.connections) as groups:
        clients = list(itertools.chain(*groups))

        async def cost(requests: Iterator[bytes], in_turn: bool = False) -> tuple[Cost, list[bytes]]:
            before = server.busy_seconds(), server.store_busy_seconds()
            played = await play(clients, requests, in_turn)
            after, count = (server.busy_seconds(), server.store_busy_seconds()), n * (1 + in_turn)
            worker, store = (1e6 * (b - a) / count for a, b in zip(before, after, strict=True))
            p50, feedback_p50 = (
                1e6 * float(np.median(each or math.nan)) for each in (played.latencies, played.feedback_latencies)
            )
            return Cost(worker, store, p50, feedback_p50, count / played.seconds), played.answers

        both, _ = await cost(predictions(names, n, 2 * seed), in_turn=True)
        predict, answers = await cost(predictions(names, n, 2 * seed + 1))
        given, _ = await cost(feedback(answers))
        return {BOTH: both, PREDICT: predict, FEEDBACK: given}


async def warm_up(server: Server, names: Sequence[str]) -> None:
    """Let every worker serve every model, several times."""
    async with connected(server, len(server.pids)) as groups:
        await asyncio.gather(
            *(play(group, predictions(names, max(200, 3 * len(names)), 99), in_turn=True) for group in groups)
        )


async def fill_log(world: World, name: str, retained: int) -> None:
    """Make the log of a new model full: from now on, a snapshot trims as many rounds as came since the last one."""
    session = await open_session(world, name)
    await fill(world, session, retained, together=1, distinct=20)
    await fold(session)


async def script_cost(server: Server, n: int, prefix: str) -> float:
    """Return the store's processor time for the smallest script that could store a prediction, in µs.

    Args:
        server: its store.
        n: number of calls, one after another.
        prefix: of the keys, which must be new.
    """
    async with Redis.from_url(server.store_url) as store:
        script, record = store.register_script(SCRIPT), bytes(_RECORD_BYTES)
        await script(keys=["baseline", prefix], args=[record])
        before = server.store_busy_seconds()
        for i in range(n):
            await script(keys=["baseline", f"{prefix}{i}"], args=[record])
        return 1e6 * (server.store_busy_seconds() - before) / n


class Turn(NamedTuple):
    """One measurement of a shape."""

    ours: dict[str, Costs]  # by algorithm
    plain: Costs  # of the FastAPI application
    script: float  # µs


async def take_turn(server: Server, plain: Server, shape: Shape, names: Names, n: int, seed: int) -> Turn:
    """Measure a shape once."""
    ours = {algorithm: await measure(server, shape, models, n, seed) for algorithm, models in names.items()}
    theirs = await measure(plain, shape, ["any"], n, seed)
    return Turn(ours, theirs, await script_cost(server, n, f"{shape.name}-{seed}-"))


def rows(n: int = 2_000, turns: int = REPEATS, models: int = MODELS, retained: int = 100_000) -> list[Row]:
    """Return the table of single requests."""
    one, many = ({name: [f"{name}-{i}" for i in range(count)] for name in ALGORITHMS} for count in (1, models))
    with serving(WORKERS) as server, running_baseline(workers=WORKERS) as plain:
        server.wait_until_quiet()
        memory, table = memory_row(server), list[Row]()
        uvloop.run(prepare(server, one, retained))
        uvloop.run(warm_up(plain, ["any"] * models))
        for shape in SHAPES:
            if shape.many:
                uvloop.run(prepare(server, {name: each[1:] for name, each in many.items()}, RETAINED_OF_MANY))
            names = many if shape.many else one
            found = [uvloop.run(take_turn(server, plain, shape, names, n, seed)) for seed in range(turns)]
            table += [row for algorithm in ALGORITHMS for row in shape_rows(shape, algorithm, found)]
    return [*table, memory]


async def prepare(server: Server, names: Names, retained: int) -> None:
    """Create models with full logs, and let all workers serve them."""
    with unwritten(server):
        async with environment(server) as world:
            for algorithm, models in names.items():
                for name in models:
                    create_model(server, name, retain_rounds=retained, algorithm=algorithm)
                    await fill_log(world, name, retained)
    await warm_up(server, list(itertools.chain(*names.values())))
    server.wait_until_quiet()


def shape_rows(shape: Shape, algorithm: str, turns: Sequence[Turn]) -> Iterator[Row]:
    """Yield the rows of a shape and an algorithm. A ratio is the median of turns, because other load comes and goes."""
    pairs = {each: [(turn.ours[algorithm][each], turn.plain[each]) for turn in turns] for each in OPERATIONS}
    where = f"{shape.name}, {algorithm}"
    for operation, costs in pairs.items():
        row = comparison(f"{where}: workers' CPU, {operation}", [(a.worker, b.worker) for a, b in costs], shape.most)
        ours, theirs = (str(Cost(*np.median(each, axis=0).tolist())) for each in zip(*costs, strict=True))
        wanted = f"{row.wanted} (goal {shape.goal:g})"
        yield row._replace(figure=ours, baseline=f"FastAPI {theirs}", wanted=wanted)
    if shape.connections > 1:
        return
    p50 = {PREDICT: [(a.p50, b.p50) for a, b in pairs[BOTH]]}
    p50[FEEDBACK] = [(a.p50_of_feedback, b.p50_of_feedback) for a, b in pairs[BOTH]]
    for operation, found in p50.items():
        yield comparison(f"{where}: p50, {operation}, in turn", found, MOST_OF_P50)
    for operation in p50:
        store = [(turn.ours[algorithm][operation].store, turn.script) for turn in turns]
        yield comparison(f"{where}: the store's CPU, {operation}", store, MOST_OF_STORE, "script")


def comparison(what: str, pairs: Sequence[tuple[float, float]], most: float, baseline: str = "FastAPI") -> Row:
    """Return a row for times in µs, each with the baseline of its turn."""
    ratio = float(np.median([a / b for a, b in pairs]))
    ours, theirs = np.median(pairs, axis=0)
    return Row(what, f"{ours:,.0f} µs", f"{baseline} {theirs:,.0f} µs", ratio, f"≤ {most:g}", ratio <= most)


def memory_row(server: Server) -> Row:
    """Return the row of the largest worker."""

    def mebibytes(pid: int) -> tuple[float, float]:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        resident, proportional = (re.findall(rf"(?m)^{name}:\s+(\d+) kB", text)[0] for name in ("Rss", "Pss"))
        return int(resident) / 1024, int(proportional) / 1024

    resident, proportional = max(map(mebibytes, server.pids))
    row = at_most("memory (RSS) of a worker that has served no model", resident, MOST_IDLE_MIB, "MiB", 1.0)
    return row._replace(figure=f"{row.figure}; PSS {proportional:,.2f} MiB", travels=False)


if __name__ == "__main__":
    print_rows("Single requests", rows())

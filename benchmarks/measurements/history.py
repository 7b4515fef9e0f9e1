"""The effect of a long history on requests, on the start of a worker, and on memory in the store."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import uvloop

from benchmarks.cost import read_meters
from benchmarks.log_filler import BATCH, World, environment, fill, fold, open_session, unwritten
from benchmarks.measurements.memory import memory_rows
from benchmarks.report import Row, at_least, at_most, print_rows, seen
from benchmarks.server import Server, running
from benchmarks.traffic import CONNECTIONS, REPEATS, D, Played, create_model, drive, feedback, predictions
from learners.base import FloatArray
from service.choice.requests import PredictionRequest

SHORT = 1_000
LENGTHS = (100_000, 1_000_000)
LONG = (100_000, 10_000_000)  # takes 3.1 GB in the store and some minutes to fill
_TAIL = BATCH  # rounds after the snapshot, which a starting worker folds
_ALL = 10**9  # rounds to retain: the log keeps the whole history
_STARTS = 9


def name_of(rounds: int) -> str:
    """Return the name of the model with a history of this length."""
    return f"rounds-{rounds}"


async def prepare(server: Server, rounds: int) -> None:
    """Fill a history, store a snapshot, and append a tail."""
    async with environment(server) as world:
        session = await open_session(world, name_of(rounds))
        await fill(world, session, rounds - _TAIL)
        await fold(session)
        await fill(world, session, _TAIL)


async def first_predictions(server: Server, lengths: Sequence[int], starts: int) -> FloatArray:
    """Return the seconds from opening a session to its first answer, (starts, lengths), each length in turn."""
    async with environment(server) as world:
        await _first_prediction(world, name_of(SHORT))  # loads the kernels
        return np.array([[await _first_prediction(world, name_of(n)) for n in lengths] for _ in range(starts)])


async def _first_prediction(world: World, name: str) -> float:
    """Find the model, load the snapshot, fold the tail and predict. Return the seconds."""
    started = time.perf_counter()
    session = await open_session(world, name)
    await session.predictor.predict(PredictionRequest([0.1] * D, None, False))
    return time.perf_counter() - started


class Taken(NamedTuple):
    """The measurements of a path."""

    rate: float  # requests per second over HTTP
    busy: float  # processor seconds per request, worker and store together


async def play(server: Server, name: str, n: int, seed: int) -> list[Taken]:
    """Send n predictions, then their feedback."""

    async def timed(requests: Iterator[bytes]) -> tuple[Taken, Played]:
        before = read_meters(server)
        outcome = await drive(server.port, requests, CONNECTIONS)
        spent = read_meters(server).per(before, n)
        return Taken(outcome.rate, spent.worker_seconds + spent.store_seconds), outcome

    predicting, made = await timed(predictions([name], n, seed))
    giving, _ = await timed(feedback(made.answers))
    return [predicting, giving]


def path_rows(server: Server, lengths: Sequence[int], n: int, repeats: int) -> list[Row]:
    """Compare both paths on each history with the short history, measured alternately."""
    all_lengths = (SHORT, *lengths)
    for length in all_lengths:
        uvloop.run(play(server, name_of(length), n // 3, seed=99))
    runs = [[uvloop.run(play(server, name_of(length), n, seed)) for length in all_lengths] for seed in range(repeats)]
    taken = np.array(runs)  # (repeats, lengths, paths, rate and busy)
    return [
        row
        for j, length in enumerate(lengths, start=1)
        for i, path in enumerate(("/predict", "/feedback"))
        for row in comparison_rows(f"POST {path}, {comparison(length)}", taken[:, j, i], taken[:, 0, i])
    ]


def comparison_rows(what: str, found: FloatArray, short: FloatArray) -> list[Row]:
    """Return the rows for rates and processor times. A ratio is the median over turns, as other load varies."""
    ratio, busy_ratio = np.median(found / short, axis=0).tolist()
    (rate, busy), (short_rate, short_busy) = (np.median(each, axis=0).tolist() for each in (found, short))
    judged = at_least(what, rate, short_rate, "/s", 0.9)._replace(ratio=ratio, met=ratio >= 0.9)
    return [
        judged,
        seen(f"{what}, worker and store", f"{busy * 1e6:,.0f} µs", f"{short_busy * 1e6:,.0f} µs", busy_ratio),
    ]


def start_rows(server: Server, lengths: Sequence[int], starts: int) -> list[Row]:
    """Return the rows for a worker's first prediction."""
    seconds = uvloop.run(first_predictions(server, (SHORT, *lengths), starts))
    short, *longer = (np.median(seconds, axis=0) * 1000).tolist()
    what = f"first prediction of a worker, {_TAIL} rounds after the snapshot"
    return [
        at_most(f"{what}, {comparison(length)}", found, short, "ms", 2.0)
        for length, found in zip(lengths, longer, strict=True)
    ]


def comparison(length: int) -> str:
    """Name a comparison."""
    return f"{length:,} rounds vs. {SHORT:,}"


def rows(lengths: Sequence[int] = LENGTHS, n: int = 3_000, repeats: int = REPEATS, starts: int = _STARTS) -> list[Row]:
    """Return the table of histories."""
    with running() as server:
        kept = memory_rows(server, n * 30)
        with unwritten(server):
            for length in (SHORT, *lengths):
                create_model(server, name_of(length), retain_rounds=_ALL, algorithm="gaptron")
                uvloop.run(prepare(server, length))
        started = start_rows(server, lengths, starts)
        return [*path_rows(server, lengths, n, repeats), *started, *kept]


if __name__ == "__main__":
    print_rows("History is free", rows())

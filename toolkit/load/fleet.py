"""Runs the load generators, each in a separate process."""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import uvloop

from service.processes import die_with_parent
from toolkit.load.client import Client, LoadError
from toolkit.load.generator import Generator, Result
from toolkit.load.plan import Plan

_LEAD_SECONDS = 0.1  # between the announcement of the start time and the start
_PROGRESS_SECONDS = 0.25

Progress = Callable[[int, int, int], None]
"""Receives the numbers of predictions, acknowledged feedback items and right predictions, over all processes."""


async def generate(plan: Plan, models: Sequence[str], progress: Progress) -> list[Result]:
    """Run the load in `plan.processes` processes that start it together. Raises `LoadError` if one of them fails."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = list[Connection](), []
    try:
        for number in range(plan.processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run_process, args=(theirs, plan, number, models), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        return await asyncio.to_thread(_collect, pipes, progress)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _collect(pipes: Sequence[Connection], progress: Progress) -> list[Result]:
    """Start the generators when all are ready; return their results."""
    for pipe in pipes:
        _receive(pipe)
    start = time.perf_counter() + _LEAD_SECONDS
    for pipe in pipes:
        pipe.send(start)
    results, counts = dict[Any, Result](), dict[Any, tuple[int, int, int]]()
    while left := [pipe for pipe in pipes if pipe not in results]:
        for ready in wait(left):
            found = _receive(ready)
            if isinstance(found, Result):
                results[ready] = found
            else:
                counts[ready] = found
                progress(*map(sum, zip(*counts.values(), strict=True)))
    return [results[pipe] for pipe in pipes]


def _receive(pipe: Any) -> Any:
    try:
        found = pipe.recv()
    except EOFError:
        raise LoadError("a generator ended") from None
    if isinstance(found, LoadError):
        raise found
    return found


def _run_process(pipe: Connection, plan: Plan, number: int, models: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    die_with_parent()
    try:
        pipe.send(uvloop.run(_generate(pipe, plan, number, models)))
    except LoadError as error:
        pipe.send(error)


async def _generate(pipe: Connection, plan: Plan, number: int, models: Sequence[str]) -> Result:
    generator = Generator(plan, number, models)
    async with Client(plan.target, plan.connections, plan.timeout) as client:
        pipe.send("ready")
        running = asyncio.create_task(generator.run(client, pipe.recv()))
        while not (await asyncio.wait([running], timeout=_PROGRESS_SECONDS))[0]:
            pipe.send(generator.counts())
        return running.result()

"""Starts the generator processes, sends them the start time, and reads their progress and results."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from service.processes import tied_command
from toolkit.load.client import LoadError
from toolkit.load.ledger import Ledger
from toolkit.load.plan import PLAN_JSON, Plan
from toolkit.load.timing import Histogram, Measured


@dataclass
class Part:
    """The measurements and the ledger of one process."""

    predict: Measured = field(default_factory=Measured)
    feedback: Measured = field(default_factory=Measured)
    lag: Histogram = field(default_factory=Histogram)
    """How late the process started its requests."""
    cpu: float = 0.0
    """Share of one core that the process used during the measured time."""
    ledger: Ledger = field(default_factory=Ledger)
    problems: Counter[str] = field(default_factory=Counter)
    """Counts of refusals by status and message, and of missing responses."""

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the form that `from_json` reads."""
        written = {name: getattr(self, name).to_json() for name in ("predict", "feedback", "lag", "ledger")}
        return {**written, "cpu": self.cpu, "problems": dict(self.problems)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`."""
        return cls(
            predict=Measured.from_json(written["predict"]),
            feedback=Measured.from_json(written["feedback"]),
            lag=Histogram.from_json(written["lag"]),
            cpu=written["cpu"],
            ledger=Ledger.from_json(written["ledger"]),
            problems=Counter(written["problems"]),
        )


_LONGEST_LINE = 2**30  # a ledger has two bytes per round; base64 adds a third
_LEAD_SECONDS = 0.1  # from sending the start time to the start

Progress = Callable[[tuple[int, int, int]], None]
"""Receives the numbers of predictions, acknowledged feedback items and right predictions, over all processes."""


async def generate(plan: Plan, models: Sequence[str], progress: Progress) -> list[Part]:
    """Run the load in `plan.processes` processes that start at the same time.

    Raises:
        LoadError: if a process fails; the others are terminated.
    """
    processes = [await _start(plan, number, models) for number in range(plan.processes)]
    try:
        await asyncio.gather(*(_expect_ready(process) for process in processes))
        start = time.perf_counter() + _LEAD_SECONDS
        counts = [(0, 0, 0)] * plan.processes

        def tell(number: int, count: tuple[int, int, int]) -> None:
            counts[number] = count
            answered, acknowledged, right = map(sum, zip(*counts, strict=True))
            progress((answered, acknowledged, right))

        runs = (_run(process, start, partial(tell, number)) for number, process in enumerate(processes))
        return list(await asyncio.gather(*runs))
    finally:
        for process in processes:
            await _end(process)


async def _start(plan: Plan, number: int, models: Sequence[str]) -> Process:
    command = tied_command([sys.executable, "-m", "toolkit.load"])
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_LONGEST_LINE, start_new_session=True
    )
    order = {"plan": PLAN_JSON.dump_python(plan, mode="json"), "process": number, "models": models}
    await _write(process, order)
    return process


async def _run(process: Process, start: float, progress: Progress) -> Part:
    await _write(process, start)
    while isinstance(said := await _read(process), list):
        answered, acknowledged, right = said
        progress((answered, acknowledged, right))
    return Part.from_json(said)


async def _expect_ready(process: Process) -> None:
    await _read(process)


async def _write(process: Process, value: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    await process.stdin.drain()


async def _read(process: Process) -> Any:
    assert process.stdout is not None
    assert process.stderr is not None
    line = await process.stdout.readline()
    if not line:
        said = (await process.stderr.read()).decode(errors="replace").strip().rpartition("LoadError: ")
        raise LoadError(said[2] if said[1] else f"a generator ended: {said[2]}")
    return json.loads(line)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.communicate()

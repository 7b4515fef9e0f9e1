"""The hour of chaos: its stages, one after the other, and the table of those that have ended."""

import asyncio
import json
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.playing import Length
from tests.chaos.runs import change_cluster, fail_over, run, upgrade
from tests.chaos.world import Report

WORKERS = 4
PAUSES = (0.2, 1.5)

_DEAD_WORKERS = ("killed worker", "killed older worker")
_DEAD_STORES = ("killed store", "killed primary", "hasty primary")


class Stage(NamedTuple):
    """One run of a plan.

    Attributes:
        name: what runs.
        seconds: duration of the faults.
        play: runs it in a folder.
        may_lose: whether the documented limits of fail-over allow losses.
    """

    name: str
    seconds: float
    play: Callable[[Path, Length], Awaitable[tuple[Report, Counter[str]]]]
    may_lose: bool = False


HOUR: Sequence[Stage] = (
    *(Stage(f"one store, {part} of 4", 300.0, run) for part in range(1, 5)),
    Stage("one store, two versions", 300.0, upgrade),
    Stage("one store, clocks jump", 300.0, partial(run, clocks=True)),
    Stage("Sentinel", 450.0, fail_over, may_lose=True),
    Stage("Sentinel, WAGER_WAIT_REPLICAS=1", 450.0, partial(fail_over, wait_replicas=1)),
    Stage("cluster, primaries die", 450.0, partial(change_cluster, deaths=True), may_lose=True),
    Stage("cluster, slots move", 450.0, partial(change_cluster, deaths=False)),
)
"""An hour of faults. Short stages, because each is recorded when it ends."""

PLANS = {"hour": HOUR}


class Row(NamedTuple):
    """The result of a stage."""

    stage: str
    seconds: float
    seed: int
    acknowledged: int
    rounds: int
    worker_kills: int
    store_kills: int
    lost: int
    repeated: int
    violations: list[str]  # outside the limits, as sentences
    faults: dict[str, int]

    def line(self) -> str:
        """Return the row as Markdown."""
        numbers = f"{self.seconds:,.0f} | {self.seed} | {self.acknowledged:,} | {self.rounds:,}"
        counts = f"{self.worker_kills} | {self.store_kills} | {self.lost} | {self.repeated} | {len(self.violations)}"
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return f"| {self.stage} | {numbers} | {counts} | {faults} |"


HEAD = (
    "| stage | seconds | seed | acknowledged | rounds | workers killed | stores killed | lost | repeated | violations "
    "| faults |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def row_of(stage: Stage, seed: int, seconds: float, report: Report, injected: Counter[str]) -> Row:
    """Return the row of a run; what is lost or repeated counts as a violation unless the stage may lose."""
    lost = [] if stage.may_lose else [f"{own} is lost" for own in report.lost]
    repeated = [] if stage.may_lose else [f"{own} was recorded again" for own in report.renewed]
    return Row(
        stage.name,
        seconds,
        seed,
        report.acknowledged,
        report.rounds,
        sum(injected[name] for name in _DEAD_WORKERS),
        sum(injected[name] for name in _DEAD_STORES),
        len(report.lost),
        len(report.renewed),
        [*report.wrong, *lost, *repeated],
        dict(injected),
    )


def total(rows: Sequence[Row]) -> Row:
    """Return the sum of rows."""
    faults = sum((Counter(row.faults) for row in rows), Counter[str]())
    wrong = [line for row in rows for line in row.violations]
    return Row(
        "all",
        sum(row.seconds for row in rows),
        rows[0].seed,
        sum(row.acknowledged for row in rows),
        sum(row.rounds for row in rows),
        sum(row.worker_kills for row in rows),
        sum(row.store_kills for row in rows),
        sum(row.lost for row in rows),
        sum(row.repeated for row in rows),
        wrong,
        dict(faults),
    )


class Record:
    """The rows of the stages that have ended, one JSON object a line.

    Args:
        file: where they are kept, so that a plan goes on after an interruption; None: nowhere.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        text = file.read_text() if file is not None and file.exists() else ""
        self.rows = [Row(**json.loads(line)) for line in text.splitlines()]

    def find(self, stage: Stage, seed: int, seconds: float) -> Row | None:
        """Return the row of a stage that has ended with this seed and duration."""
        return next((row for row in self.rows if row[:3] == (stage.name, seconds, seed)), None)

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(row._asdict()) + "\n")


def carry_out(stages: Sequence[Stage], seed: int, share: float, file: Path | None) -> list[Row]:
    """Run the stages that the record lacks, and print a row after each.

    Args:
        stages: the plan.
        seed: seed of the first stage; the next ones have the following seeds.
        share: share of the plan's durations, for a shorter run of all stages.
        file: the record.
    """
    record, rows = Record(file), list[Row]()
    _say(HEAD)
    for number, stage in enumerate(stages):
        seconds = stage.seconds * share
        row = record.find(stage, seed + number, seconds)
        if row is None:
            row = _run(
                stage, Length(seconds, seed + number, WORKERS, PAUSES, keep=None if file is None else file.parent)
            )
            record.add(row)
        _say(row.line(), *(f"  violation: {line}" for line in row.violations[:20]))
        rows.append(row)
    _say(total(rows).line())
    return rows


def _run(stage: Stage, length: Length) -> Row:
    """Run a stage; one that breaks off is a violation, and the next stages still run."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            report, injected = asyncio.run(_play(stage, Path(folder), length))
        except Exception as error:  # noqa: BLE001 - the next stages still run
            traceback.print_exc()
            lines = [f"broke off after {time.monotonic() - begun:.0f} s: {error!r}"]
            report, injected = Report(0, 0, [], [], lines, Counter()), Counter()
        if report.wrong and length.keep is not None:
            _keep_log(Path(folder, "wager.log"), length.keep / f"wager-{length.seed}.log")
    return row_of(stage, length.seed, length.seconds, report, injected)


def _keep_log(log: Path, kept: Path) -> None:
    """Copy the log of the service, if it has begun."""
    if log.exists():
        shutil.copy(log, kept)


async def _play(stage: Stage, folder: Path, length: Length) -> tuple[Report, Counter[str]]:
    return await stage.play(folder, length)


def _say(*lines: Any) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201

"""The runs of one table of defaults: those that choose each learner's best setting, then those that measure it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic

from benchmarks.papers.data.chunks import Stream
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.experiment import MAX_STATE
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.tuning import PEERS, TABLE, Row
from benchmarks.papers.vowpal_wabbit import ALGORITHM
from learners.layouts import state_bytes
from learners.registry import LEARNERS

MOST_WORK = 1e11
"""Rough limit of multiply-adds per run: some minutes. Slower learners are left out, and the page names them."""

Setting = dict[str, Any]


class Seeds(NamedTuple):
    """Disjoint seeds: a setting that was lucky on the seeds that chose it has no advantage on those that measure it."""

    tuning: range
    measuring: range


def seeds(tuning: int, measuring: int) -> Seeds:
    """Return the first seeds for the choice, and those after them for the measurement."""
    return Seeds(range(tuning), range(tuning, tuning + measuring))


class Plan(NamedTuple):
    """The rows to play on one stream."""

    stream: str
    file: str | None
    rounds: int
    seeds: Seeds
    rows: list[Row]
    left_out: list[str]  # one sentence per learner that is left out

    def runs(self, row: Row, setting: Setting, of: range) -> list[Run]:
        """Return the runs of one setting, one per seed."""
        return [Run(self.stream, self.file, row.algorithm, setting, self.rounds, seed) for seed in of]

    @property
    def tuning_runs(self) -> list[Run]:
        """The runs of every setting, for rows with a choice."""
        rows = [(row, row.settings()) for row in self.rows]
        settings = [(row, setting) for row, several in rows if len(several) > 1 for setting in several]
        return [run for row, setting in settings for run in self.runs(row, setting, self.seeds.tuning)]

    def measuring_runs(self, folder: Path) -> list[Run]:
        """Return the runs of each row's default and best setting; the folder has all tuning runs."""
        settings = [(row, setting) for row in self.rows for setting in (row.settings()[0], self.best(row, folder))]
        return [run for row, setting in settings for run in self.runs(row, setting, self.seeds.measuring)]

    def best(self, row: Row, folder: Path) -> Setting:
        """Return the setting with the least mean error on the tuning seeds; the first of equals."""
        settings = row.settings()
        return settings[0] if len(settings) == 1 else min(settings, key=lambda one: self._tuned_error(row, one, folder))

    def _tuned_error(self, row: Row, setting: Setting, folder: Path) -> float:
        return float(np.mean([load(folder, run).error for run in self.runs(row, setting, self.seeds.tuning)]))


def plan(name: str, file: str | None, rounds: int, of: Seeds, only: Sequence[str] = ()) -> Plan:
    """Plan the runs on a stream: all learners and the peer, or only the named algorithms."""
    stream, rows, left_out = open_stream(name, file), [], []
    for row in (*TABLE, *PEERS):
        if only and row.algorithm not in only:
            continue
        if (reason := _too_much(row, stream, rounds)) is not None:
            left_out.append(f"{row.name}: {reason}.")
            continue
        rows.append(row)
    return Plan(name, file, rounds, of, rows, left_out)


def _too_much(row: Row, stream: Stream, rounds: int) -> str | None:
    if row.algorithm == ALGORITHM:
        return None
    try:
        learner = LEARNERS[row.algorithm](problem=stream.problem, **row.fixed)
    except pydantic.ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    if (needed := state_bytes(learner)) > MAX_STATE:
        return f"its state would take {needed:,} bytes"
    step = learner.fold_cost(learner.problem.n_features) + learner.fold_overhead
    if (work := float(step * rounds)) > MOST_WORK:
        return f"a run would take some {work:.0e} multiply-adds"
    return None

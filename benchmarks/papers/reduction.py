"""The bandit reduction over several bases, on two streams, with two learners that use every round for comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.summary import markdown, summarize, with_deviation

STREAMS = {"pendigits": 10_000, "covertype": 10_000}
"""Rounds on each stream."""


class Entry(NamedTuple):
    """One row of the table."""

    name: str
    algorithm: str
    hyperparameters: dict[str, Any]


ENTRIES = (
    *(
        Entry(f"{base}, default step", "bandit-reduction", {"base": base})
        for base in ("folklore", "fenchel-young", "gaptron", "perceptron")
    ),
    Entry("folklore, B = 100", "bandit-reduction", {"base": "folklore", "comparator_bound": 100.0}),
    *(
        Entry(f"{base}, η = 3", "bandit-reduction", {"base": base, "base_settings": {"learning_rate": 3.0}})
        for base in ("fenchel-young", "gaptron")
    ),
    Entry(
        "adaboost-olm, 8 cost regressions",
        "bandit-reduction",
        {"base": "adaboost-olm", "base_settings": {"weak_learner": "cost-regression", "weak_learners": 8}},
    ),
    Entry("no reduction: gaptron", "gaptron", {}),
    Entry("no reduction: squarecb", "squarecb", {}),
)


class Table(NamedTuple):
    """The runs on one stream, in the order of ENTRIES; one run per seed."""

    stream: str
    rounds: int
    runs: list[list[Run]]


def table(stream: str, file: str | None, rounds: int, seeds: int) -> Table:
    """Plan the runs on a stream."""
    runs = [
        [Run(stream, file, entry.algorithm, entry.hyperparameters, rounds, seed) for seed in range(seeds)]
        for entry in ENTRIES
    ]
    return Table(stream, rounds, runs)


def report(tables: Sequence[Table], seeds: int, folder: Path, pages: Path) -> None:
    """Write the page `bandit-reduction`; all runs are finished."""
    header = ["base"]
    rows = [[entry.name] for entry in ENTRIES]
    for one in tables:
        header += [f"{one.stream}, {one.rounds:,} rounds", "last quarter"]
        for row, runs in zip(rows, one.runs, strict=True):
            summary = summarize([load(folder, run) for run in runs])
            row += [with_deviation(summary.error), with_deviation(summary.late_error)]
    introduction = (
        f"Mistakes per round with bandit feedback, mean (std) over {seeds} seeds. The reduction explores at γ = 0.1, "
        "so it learns from about γT/K rounds."
    )
    write_page(
        pages,
        "bandit-reduction",
        "The bandit reduction over several bases",
        introduction,
        f"reduction --seeds {seeds}",
        markdown(header, rows),
    )

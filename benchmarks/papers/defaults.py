"""The tables of defaults: each learner with its defaults, with the best of a few settings, and a peer's best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pydantic

from benchmarks.papers.data.chunks import Stream
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.experiment import MAX_STATE
from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.summary import Summary, markdown, summarize, with_deviation, write_csv
from benchmarks.papers.tuning import PEER, TABLE, Row
from benchmarks.papers.vowpal_wabbit import ALGORITHM
from learners.layouts import state_bytes
from learners.registry import LEARNERS

STREAMS = {"synsep": 100_000, "synnonsep": 100_000, "covertype": 100_000, "reuters4": 28_176, "pendigits": 29_976}
"""Rounds on each stream. The last two data sets are played four times, each time in another order."""

MOST_WORK = 1e11
"""Rough limit of multiply-adds per run: some minutes. Slower learners are left out, and the page names them."""

Result = tuple[dict[str, Any], Summary]


class Contest(NamedTuple):
    """The runs on one stream."""

    stream: str
    rounds: int
    seeds: int
    rows: list[tuple[Row, list[tuple[dict[str, Any], list[Run]]]]]  # each setting with its runs over seeds
    left_out: list[str]  # one sentence per learner that is left out

    @property
    def runs(self) -> list[Run]:
        """The runs of all settings."""
        return [run for _, settings in self.rows for _, runs in settings for run in runs]


def contest(name: str, file: str | None, rounds: int, seeds: int, only: Sequence[str] = ()) -> Contest:
    """Plan the runs on a stream: all learners and the peer, or only the named algorithms."""
    stream, rows, left_out = open_stream(name, file), [], []
    for row in (*TABLE, PEER):
        if only and row.algorithm not in only:
            continue
        if (reason := _too_much(row, stream, rounds)) is not None:
            left_out.append(f"{row.name}: {reason}.")
            continue
        settings = [
            (setting, [Run(name, file, row.algorithm, setting, rounds, seed) for seed in range(seeds)])
            for setting in row.settings()
        ]
        rows.append((row, settings))
    return Contest(name, rounds, seeds, rows, left_out)


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


def report(contests: Sequence[Contest], folder: Path, pages: Path) -> None:
    """Write the tables of defaults.

    Args:
        contests: the contests to report; all their runs are finished.
        folder: holds the runs, and receives defaults/table.csv, which has every setting of every contest.
        pages: receives one Markdown page for each contest.
    """
    out = folder / "defaults"
    out.mkdir(parents=True, exist_ok=True)
    lines: list[list[Any]] = []
    for one in contests:
        results = [(row, [(setting, _load(folder, runs)) for setting, runs in settings]) for row, settings in one.rows]
        _write_page(one, results, pages)
        lines.extend(line for row, of in results for line in _csv_lines(one, row, of))
    write_csv(out / "table.csv", _CSV_HEADER, lines)


def _load(folder: Path, runs: Sequence[Run]) -> Summary:
    return summarize([load(folder, run) for run in runs])


def _write_page(one: Contest, results: Sequence[tuple[Row, list[Result]]], pages: Path) -> None:
    peers = [_best(of) for row, of in results if row.algorithm == ALGORITHM]
    peer = f"{peers[0][1].error.mean():.4f}" if peers else "–"
    header = ["learner", "information", "default", "last quarter", "rounds/s"]
    header += ["best tuned", "last quarter", "setting", "default / tuned", "VW best"]
    rows = [_line(row, of, peer) for row, of in results]
    missing = "".join(f"\nLeft out: {sentence}\n" for sentence in one.left_out)
    introduction = (
        f"Mistakes per round, mean (std) over {one.seeds} seeds: each learner with its defaults, with the best of the "
        f"settings in [tuning.py](../tuning.py), and Vowpal Wabbit's best."
    )
    title, command = (
        f"Defaults: {one.stream}, {one.rounds:,} rounds",
        f"defaults --streams {one.stream} --seeds {one.seeds}",
    )
    write_page(pages, f"defaults-{one.stream}", title, introduction, command, markdown(header, rows) + missing)


def _line(row: Row, of: list[Result], peer: str) -> list[str]:
    default, (setting, tuned) = of[0][1], _best(of)
    ratio = default.error.mean() / tuned.error.mean() if tuned.error.mean() > 0 else 1.0
    information = "full" if row.full_information else "bandit"
    errors = with_deviation(default.error), with_deviation(default.late_error), f"{default.speed:,.0f}"
    bests = with_deviation(tuned.error), with_deviation(tuned.late_error), _words(setting)
    return [row.name, information, *errors, *bests, f"{ratio:.2f}", peer]


def _best(of: Sequence[Result]) -> Result:
    return min(of, key=lambda result: float(result[1].error.mean()))


def _words(setting: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items()) or "default"


_CSV_HEADER = (
    *("stream", "rounds", "learner", "algorithm", "information", "setting", "seeds"),
    *("error_mean", "last_quarter_error_mean", "rounds_per_second"),
)


def _csv_lines(one: Contest, row: Row, of: Sequence[Result]) -> list[list[Any]]:
    information = "full" if row.full_information else "bandit"
    who = one.stream, one.rounds, row.name, row.algorithm, information
    return [
        [*who, _words(setting), len(result.error), result.error.mean(), result.late_error.mean(), round(result.speed)]
        for setting, result in of
    ]

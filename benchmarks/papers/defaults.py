"""The tables of defaults: each learner with its defaults, with the best of a few settings, and a peer's best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.papers.pages import write_page
from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from benchmarks.papers.summary import Summary, markdown, summarize, with_deviation, write_csv
from benchmarks.papers.trials import Plan, Setting
from benchmarks.papers.tuning import PEER, Row

STREAMS = {"synsep": 100_000, "synnonsep": 100_000, "covertype": 100_000, "reuters4": 28_176, "pendigits": 29_976}
"""Rounds on each stream. The last two data sets are played four times, each time in another order."""


class Result(NamedTuple):
    """A row's default and best setting on the measuring seeds."""

    row: Row
    default: Summary
    best: Summary
    setting: Setting  # the best


def report(contests: Sequence[Plan], folder: Path, pages: Path) -> None:
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
        results = [_result(one, row, folder) for row in one.rows]
        _write_page(one, results, pages)
        lines.extend(line for result in results for line in _csv_lines(one, result, folder))
    write_csv(out / "table.csv", _CSV_HEADER, lines)


def _result(one: Plan, row: Row, folder: Path) -> Result:
    best, measuring = one.best(row, folder), one.seeds.measuring
    default, tuned = (_load(folder, one.runs(row, setting, measuring)) for setting in (row.settings()[0], best))
    return Result(row, default, tuned, best)


def _load(folder: Path, runs: Sequence[Run]) -> Summary:
    return summarize([load(folder, run) for run in runs])


def _write_page(one: Plan, results: Sequence[Result], pages: Path) -> None:
    peers = [result.best for result in results if result.row is PEER]
    peer = f"{peers[0].error.mean():.4f}" if peers else "–"
    header = ["learner", "information", "default", "last quarter", "rounds/s"]
    header += ["best tuned", "last quarter", "setting", "default / tuned", "VW best"]
    missing = "".join(f"\nLeft out: {sentence}\n" for sentence in one.left_out)
    tuning, measuring = len(one.seeds.tuning), len(one.seeds.measuring)
    introduction = (
        f"Mistakes per round, mean (std) over {measuring} seeds: each learner with its defaults, with the best of the "
        f"settings in [tuning.py](../tuning.py), and Vowpal Wabbit's best. The best setting is the one with the lowest "
        f"error on {tuning} other seeds."
    )
    title, command = (
        f"Defaults: {one.stream}, {one.rounds:,} rounds",
        f"defaults --streams {one.stream} --tuning-seeds {tuning} --seeds {measuring}",
    )
    body = markdown(header, [_line(result, peer) for result in results]) + missing
    write_page(pages, f"defaults-{one.stream}", title, introduction, command, body)


def _line(result: Result, peer: str) -> list[str]:
    row, default, tuned, setting = result
    ratio = default.error.mean() / tuned.error.mean() if tuned.error.mean() > 0 else 1.0
    errors = with_deviation(default.error), with_deviation(default.late_error), f"{default.speed:,.0f}"
    bests = with_deviation(tuned.error), with_deviation(tuned.late_error), _words(setting)
    return [row.name, _information(row), *errors, *bests, f"{ratio:.2f}", peer]


def _information(row: Row) -> str:
    return "full" if row.full_information else "bandit"


def _words(setting: Setting) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items()) or "default"


_CSV_HEADER = (
    *("stream", "rounds", "learner", "algorithm", "information", "setting", "purpose", "seeds"),
    *("error_mean", "last_quarter_error_mean", "rounds_per_second"),
)


def _csv_lines(one: Plan, result: Result, folder: Path) -> list[list[Any]]:
    """Return a line for each setting on the tuning seeds, then for the default and the best on the measuring seeds."""
    row, settings = result.row, result.row.settings()
    tuned = settings if len(settings) > 1 else []
    lines = [("tuning", each, _load(folder, one.runs(row, each, one.seeds.tuning))) for each in tuned]
    lines += [("default", settings[0], result.default), ("best", result.setting, result.best)]
    who = one.stream, one.rounds, row.name, row.algorithm, _information(row)
    return [
        [*who, _words(setting), purpose, len(of.error), of.error.mean(), of.late_error.mean(), round(of.speed)]
        for purpose, setting, of in lines
    ]

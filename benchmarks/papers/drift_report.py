"""The page of the change of all labels: `drift.md`, with `drift.png`."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.drift import ENTRANTS, ORACLE, TOLERANCE, WINDOW, Entrant, Trial, errors_in_windows, play
from benchmarks.papers.drift import recovery as recovery_of
from benchmarks.papers.pages import write_page
from benchmarks.papers.summary import markdown
from benchmarks.papers.tuning import TABLE
from learners.base import IntArray

STREAMS = ("synnonsep", "pendigits", "covertype")
"""The streams that every entrant plays."""

SURVEYED, SURVEY_SEEDS = "pendigits", 3
"""The stream that every learner plays, small enough for all of them, and the number of its seeds."""

TITLE = "A change of all labels"

Runs = dict[str, list[IntArray]]
"""The cumulated mistakes of `drift.play` by the name of the entrant, one array per seed."""


class Change(NamedTuple):
    """The runs on one stream."""

    stream: str
    changed: Runs
    unchanged: Runs  # the same entrants on the stream without the change
    survey: Runs  # every learner; empty unless the stream is `SURVEYED`


def play_all(stream: str, file: str | None, half: int, seeds: int, jobs: int) -> Change:
    """Play every entrant on a stream with the change and without it, and every learner if the stream is surveyed."""
    changed = [Trial(entrant, stream, file, half, seed) for seed in range(seeds) for entrant in ENTRANTS]
    unchanged = [trial._replace(changes=False) for trial in changed if trial.entrant is not ORACLE]
    everyone = _everyone() if stream == SURVEYED else ()
    survey = [Trial(entrant, stream, file, half, seed) for entrant in everyone for seed in range(SURVEY_SEEDS)]
    played = iter(joblib.Parallel(n_jobs=jobs)(joblib.delayed(play)(one) for one in (*changed, *unchanged, *survey)))
    return Change(stream, *(_by_name(trials, played) for trials in (changed, unchanged, survey)))


def _everyone() -> tuple[Entrant, ...]:
    return tuple(Entrant(row.name, row.algorithm, row.fixed) for row in TABLE)


def _by_name(trials: Sequence[Trial], played: Iterator[IntArray]) -> Runs:
    runs: Runs = {}
    for trial in trials:
        runs.setdefault(trial.entrant.name, []).append(next(played))
    return runs


def report(changes: Sequence[Change], half: int, seeds: int, folder: Path, pages: Path) -> None:
    """Write the figure to drift/ in `folder`, as PNG and SVG, and the page with its figure to `pages`."""
    introduction = (
        f"After {half:,} rounds, label k becomes label k + 1 and the last label the first; {half:,} rounds follow. "
        f"Mistakes per round, mean over {seeds} seeds. A learner has recovered at the end of the first window of "
        f"{WINDOW:,} rounds whose error is at most {TOLERANCE:g} times that of the last window before the change. "
        f"The {ORACLE.name} is a fresh {ORACLE.algorithm} that starts at the change."
    )
    body = [*(_recoveries(one) for one in changes), "![Error in a moving window](drift.png)\n\n", _costs(changes)]
    body += [_survey(one) for one in changes if one.survey]
    write_page(pages, "drift", TITLE, introduction, f"drift --seeds {seeds}", "".join(body))
    curves = {one.stream: {name: errors_in_windows(runs) for name, runs in one.changed.items()} for one in changes}
    (out := folder / "drift").mkdir(parents=True, exist_ok=True)
    figures.draw_windows(out / "windows", f"{TITLE}, {seeds} seeds", WINDOW, curves)
    shutil.copy(out / "windows.png", pages / "drift.png")


def _recoveries(one: Change) -> str:
    oracle = recovery_of(one.changed[ORACLE.name])
    header = ["learner", "error before", "rounds to recover", "times the oracle's", "error after", "last window"]
    rows = []
    for name, runs in one.changed.items():
        its = recovery_of(runs)
        ratio = f"{its.rounds / oracle.rounds:.2f}" if its.rounds and oracle.rounds else "–"
        rows.append([name, f"{its.before:.4f}", _rounds(its.rounds), ratio, f"{its.after:.4f}", f"{its.last:.4f}"])
    return f"## {one.stream}\n\n{markdown(header, rows)}\n"


def _rounds(rounds: int | None) -> str:
    return "not recovered" if rounds is None else f"{rounds:,}"


def _costs(changes: Sequence[Change]) -> str:
    header = ["learner", *(one.stream for one in changes)]
    rows = [[name, *(f"{_error(one.unchanged[name]):.4f}" for one in changes)] for name in changes[0].unchanged]
    return f"## Without a change\n\nMistakes per round over all rounds.\n\n{markdown(header, rows)}\n"


def _error(runs: Sequence[IntArray]) -> float:
    return float(np.mean([mistakes[-1] / (len(mistakes) - 1) for mistakes in runs]))


def _survey(one: Change) -> str:
    header = ["learner", "error before", "rounds to recover", "error after", "last window"]
    recoveries = {name: recovery_of(runs) for name, runs in one.survey.items()}
    rows = [
        [name, f"{its.before:.4f}", _rounds(its.rounds), f"{its.after:.4f}", f"{its.last:.4f}"]
        for name, its in sorted(recoveries.items(), key=lambda pair: pair[1].after)
    ]
    return f"## Every learner, on {one.stream}\n\nDefaults, {SURVEY_SEEDS} seeds.\n\n{markdown(header, rows)}"

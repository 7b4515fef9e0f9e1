"""The page of the change of all labels: `drift.md`, with `drift.png`."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np

from benchmarks.papers.data.chunks import Stream
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.drift import ENTRANTS, ORACLE, TOLERANCE, WINDOW, Entrant, Trial, errors_in_windows, play
from benchmarks.papers.drift import recovery as recovery_of
from benchmarks.papers.drift_figure import draw_windows
from benchmarks.papers.pages import write_page
from benchmarks.papers.summary import markdown
from benchmarks.papers.tuning import TABLE
from learners.base import IntArray
from learners.registry import LEARNERS

STREAMS = ("synnonsep", "pendigits", "covertype")
"""The streams that every entrant plays."""

SURVEYED, SURVEY_SEEDS = "pendigits", 3
"""The stream that all learners play, small enough for most of them, and the number of its seeds."""

MOST_WORK = 1e10
"""Rough limit of multiply-adds per run: half a minute. Slower learners are left out."""

TITLE = "A change of all labels"

Runs = dict[str, list[IntArray]]
"""The cumulated mistakes of `drift.play` by the name of the entrant, one array per seed."""


class Change(NamedTuple):
    """The runs on one stream."""

    stream: str
    changed: Runs
    unchanged: Runs  # the same entrants on the stream without the change
    survey: Runs  # all learners; empty unless the stream is `SURVEYED`


def play_all(name: str, file: str | None, half: int, seeds: int, jobs: int) -> Change:
    """Play every entrant on a stream with the change and without it, and all learners if the stream is surveyed."""
    stream = open_stream(name, file)
    entrants = [entrant for entrant in ENTRANTS if _is_affordable(entrant, stream, 2 * half)]
    everyone = [Entrant(row.name, row.algorithm, row.fixed) for row in TABLE] if name == SURVEYED else []
    changed = [Trial(entrant, name, file, half, seed) for seed in range(seeds) for entrant in entrants]
    unchanged = [trial._replace(changes=False) for trial in changed if trial.entrant is not ORACLE]
    surveyed = [entrant for entrant in everyone if _is_affordable(entrant, stream, 2 * half)]
    survey = [Trial(entrant, name, file, half, seed) for entrant in surveyed for seed in range(SURVEY_SEEDS)]
    played = iter(joblib.Parallel(n_jobs=jobs)(joblib.delayed(play)(one) for one in (*changed, *unchanged, *survey)))
    return Change(name, *(_by_name(trials, played) for trials in (changed, unchanged, survey)))


def _is_affordable(entrant: Entrant, stream: Stream, rounds: int) -> bool:
    learner = LEARNERS[entrant.algorithm](problem=stream.problem, **entrant.hyperparameters)
    return float(rounds * (learner.fold_cost(stream.problem.n_features) + learner.fold_overhead)) <= MOST_WORK


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
        f"The {ORACLE.name} is a fresh {ORACLE.algorithm} that starts at the change. Learners that need too much time "
        "are left out."
    )
    body = [*(_recoveries(one) for one in changes), "![Error in a moving window](drift.png)\n\n", _costs(changes)]
    body += [_survey(one) for one in changes if one.survey]
    write_page(pages, "drift", TITLE, introduction, f"drift --seeds {seeds}", "".join(body))
    curves = {one.stream: {name: errors_in_windows(runs) for name, runs in one.changed.items()} for one in changes}
    (out := folder / "drift").mkdir(parents=True, exist_ok=True)
    draw_windows(out / "windows", f"{TITLE}, {seeds} seeds", WINDOW, curves)
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
    names = dict.fromkeys(name for one in changes for name in one.unchanged)
    rows = [[name, *(_error(one.unchanged.get(name, [])) for one in changes)] for name in names]
    table = markdown(["learner", *(one.stream for one in changes)], rows)
    return f"## Without a change\n\nMistakes per round over all rounds.\n\n{table}\n"


def _error(runs: Sequence[IntArray]) -> str:
    return f"{np.mean([mistakes[-1] / (len(mistakes) - 1) for mistakes in runs]):.4f}" if runs else "–"


def _survey(one: Change) -> str:
    header = ["learner", "error before", "rounds to recover", "error after", "last window"]
    recoveries = {name: recovery_of(runs) for name, runs in one.survey.items()}
    rows = [
        [name, f"{its.before:.4f}", _rounds(its.rounds), f"{its.after:.4f}", f"{its.last:.4f}"]
        for name, its in sorted(recoveries.items(), key=lambda pair: pair[1].after)
    ]
    return f"## Every learner with its defaults, on {one.stream}\n\n{SURVEY_SEEDS} seeds.\n\n{markdown(header, rows)}"

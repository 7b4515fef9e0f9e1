"""The commands: `run` for an experiment, `defaults` for tables of defaults, and one for each other page."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from benchmarks.papers import actions as actions_page
from benchmarks.papers import boosting as boosting_page
from benchmarks.papers import drift_report
from benchmarks.papers import reduction as reduction_page
from benchmarks.papers import routing as routing_page
from benchmarks.papers.contest import STREAMS as CONTEST_STREAMS
from benchmarks.papers.contest import TRAFFIC
from benchmarks.papers.contest import plan as plan_contest
from benchmarks.papers.contest_page import report as report_contest
from benchmarks.papers.data.chunks import CHUNK
from benchmarks.papers.data.streams import find_file, usual_name
from benchmarks.papers.defaults import STREAMS
from benchmarks.papers.defaults import report as report_defaults
from benchmarks.papers.drift import HALF
from benchmarks.papers.experiment import plan, report
from benchmarks.papers.jobs import complete
from benchmarks.papers.lineup import EXPERIMENTS, RATES
from benchmarks.papers.pages import RESULTS
from benchmarks.papers.trials import plan as plan_defaults
from benchmarks.papers.trials import seeds as disjoint
from benchmarks.papers.vowpal_wabbit import ALGORITHM
from learners.registry import LEARNERS

app = typer.Typer(no_args_is_help=True, help=__doc__, add_completion=False)

Data = Annotated[str | None, typer.Option(help="File of the data set, or the folder with the files of all data sets.")]
Rounds = Annotated[int | None, typer.Option(min=100, help="Rounds of each run, T.")]
Seeds = Annotated[int, typer.Option(min=1, help="Runs of each setting, one per seed.")]
Learners = Annotated[str, typer.Option(help="Algorithms to play, separated by commas; all if empty.")]
Out = Annotated[Path, typer.Option(help="Folder of finished runs, CSV tables and figures.")]
Pages = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the Markdown pages. Default: benchmarks/papers/results; for a trial with fewer rounds, other "
        "learners or rates, or without some streams, the folder results in --out."
    ),
]
Backend = Annotated[str, typer.Option(help="joblib backend: loky, threading, sequential, dask or ray.")]
Jobs = Annotated[int, typer.Option(help="Parallel runs; -1 for one per core.")]

DEFAULT_OUT = Path("build/papers")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help=", ".join(EXPERIMENTS))],
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 10,
    learners: Learners = "",
    rates: Annotated[str, typer.Option(help="Exploration rates, separated by commas; 2^-16 to 2^-1 if empty.")] = "",
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play the unfinished runs of an experiment, then write its tables and figures."""
    console = Console()
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name} is not one of {', '.join(EXPERIMENTS)}")
    stream = EXPERIMENTS[name].stream
    file = find_file(stream, data)
    if file is None and (usual := usual_name(stream)) is not None:
        console.print(f"skipped {name}: pass the path of {usual} or its folder with --data")
        return
    grid = tuple(float(rate) for rate in rates.split(",")) if rates else RATES
    the_plan = plan(EXPERIMENTS[name], _absolute(file), rounds, seeds, _listed(learners), grid)
    for sentence in the_plan.left_out:
        console.print(f"left out: {sentence}")
    played = complete(the_plan.runs, out, backend, jobs)
    where = pages or _pages(out, rounds, learners, rates)
    report(the_plan, out, where)
    console.print(f"{played} runs played, {len(the_plan.runs) - played} reused; see {where / name}.md")


@app.command()
def defaults(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 10,
    tuning_seeds: Annotated[int, typer.Option(min=1, help="Other seeds, which choose each best setting.")] = 2,
    learners: Learners = "",
    streams: Annotated[str, typer.Option(help=", ".join(STREAMS) + "; all if empty.")] = "",
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play every learner with its defaults and with the best of a few settings, then write one table per stream."""
    console, contests, of = Console(), [], disjoint(tuning_seeds, seeds)
    found = _found(streams, STREAMS, data)
    for name, file in found.files.items():
        contests.append(plan_defaults(name, file, rounds or STREAMS[name], of, _listed(learners)))
    if unknown := set(_listed(learners)) - {*LEARNERS, ALGORITHM}:
        raise typer.BadParameter(f"not registered: {', '.join(sorted(unknown))}")
    played = 0
    for one in contests:
        played += complete(one.tuning_runs, out, backend, jobs)
        played += complete(one.measuring_runs(out), out, backend, jobs)
    where = pages or _pages(out, rounds, learners)
    report_defaults(contests, out, where)
    console.print(f"{played} runs played; see {where}")


@app.command()
def drift(
    data: Data = None,
    rounds: Annotated[int, typer.Option(min=2_000, max=CHUNK, help="Rounds before the change, and after it.")] = HALF,
    seeds: Seeds = 10,
    streams: Annotated[str, typer.Option(help=", ".join(drift_report.STREAMS) + "; all if empty.")] = "",
    out: Out = DEFAULT_OUT,
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Change all labels halfway, then write how fast learners recover, as a table and a figure."""
    console, changes = Console(), []
    found = _found(streams, drift_report.STREAMS, data)
    for name, file in found.files.items():
        changes.append(drift_report.play_all(name, file, rounds, seeds, jobs))
    where = pages or _pages(out, rounds != HALF, found.partial)
    drift_report.report(changes, rounds, seeds, out, where)
    console.print(f"see {where / 'drift'}.md")


@app.command()
def contest(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 10,
    new: Annotated[str, typer.Option(help="Algorithm to measure, with its defaults.")] = "fastcb",
    old: Annotated[str, typer.Option(help="Algorithm to compare it with, with its defaults.")] = "squarecb",
    streams: Annotated[str, typer.Option(help=", ".join([*CONTEST_STREAMS, *TRAFFIC]) + "; see --traffic.")] = "",
    traffic: Annotated[
        bool, typer.Option(help="Unless --streams names some, play the streams of a service's traffic.")
    ] = False,
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play two learners' defaults and their peers on many streams, then write one page."""
    console, bouts = Console(), []
    if unknown := {new, old} - set(LEARNERS):
        raise typer.BadParameter(f"not registered: {', '.join(sorted(unknown))}")
    known = {**CONTEST_STREAMS, **TRAFFIC}
    found = _found(streams or ",".join(TRAFFIC if traffic else CONTEST_STREAMS), known, data)
    for name, file in found.files.items():
        bouts.append(plan_contest(name, file, rounds or known[name], seeds, new, old))
    runs = [run for one in bouts for run in one.runs]
    played = complete(runs, out, backend, jobs)
    trial = found.files.keys() != CONTEST_STREAMS.keys()
    where = pages or _pages(out, rounds, trial, new != "fastcb", old != "squarecb")
    report_contest(bouts, out, where)
    console.print(f"{played} runs played, {len(runs) - played} reused; see {where / 'contest.md'}")


@app.command()
def actions(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 3,
    streams: Annotated[str, typer.Option(help=", ".join(actions_page.ROUNDS) + "; all if empty.")] = "",
    out: Out = DEFAULT_OUT,
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play the recommended learner of actions and Vowpal Wabbit on candidates, then write the page."""
    found = _found(streams, actions_page.ROUNDS, data)
    results = actions_page.results(found.files, rounds, seeds, jobs)
    where = pages or _pages(out, rounds, found.partial)
    actions_page.report(results, seeds, where)
    Console().print(f"see {where / 'actions'}.md")


@app.command()
def boosting(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 5,
    out: Out = DEFAULT_OUT,
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play adaboost-olm with 1 to 32 weak learners of each kind, then write the page and its figures."""
    found = _found("", boosting_page.STREAMS, data)
    sweeps = [
        boosting_page.sweep(name, str(file), rounds or boosting_page.STREAMS[name], seeds)
        for name, file in found.files.items()
    ]
    played = boosting_page.complete(sweeps, out, jobs)
    where = pages or _pages(out, rounds, found.partial)
    boosting_page.report(sweeps, seeds, out, where)
    Console().print(f"{played} runs played; see {where / 'boosting'}.md")


@app.command()
def reduction(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 5,
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
    pages: Pages = None,
) -> None:
    """Play bandit-reduction over several bases, then write the page."""
    found = _found("", reduction_page.STREAMS, data)
    tables = [
        reduction_page.table(name, str(file), rounds or reduction_page.STREAMS[name], seeds)
        for name, file in found.files.items()
    ]
    played = complete([run for one in tables for runs in one.runs for run in runs], out, backend, jobs)
    where = pages or _pages(out, rounds, found.partial)
    reduction_page.report(tables, seeds, out, where)
    Console().print(f"{played} runs played; see {where / 'bandit-reduction'}.md")


@app.command()
def routing(data: Data = None, seeds: Seeds = 10, pages: Pages = None) -> None:
    """Play LLM routers with weights of costs and with budgets, then write the page."""
    found = _found("paretobandit-vectors", ["paretobandit-vectors"], data)
    where = pages or RESULTS
    routing_page.report(Path(str(found.files["paretobandit-vectors"])), seeds, where)
    Console().print(f"see {where / 'routing'}.md")


class _Found(NamedTuple):
    """Streams with the files of their data sets, and whether any stream is left out."""

    files: dict[str, str | None]
    partial: bool


def _found(chosen: str, known: Collection[str], data: str | None) -> _Found:
    """Find the data sets of the chosen streams, or of all known ones; report those that are missing.

    Raises:
        typer.BadParameter: if a stream is unknown.
        typer.Exit: if no stream is left.
    """
    names, files = _listed(chosen) or list(known), {}
    if unknown := sorted(set(names) - set(known)):
        raise typer.BadParameter(f"unknown streams: {', '.join(unknown)}; known: {', '.join(known)}")
    for name in names:
        file = find_file(name, data)
        if file is None and (usual := usual_name(name)) is not None:
            Console().print(f"skipped {name}: pass the folder of {usual} with --data")
        else:
            files[name] = _absolute(file)
    if not files:
        raise typer.Exit(1)
    return _Found(files, len(files) < len(known))


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


def _absolute(file: Path | None) -> str | None:
    return None if file is None else str(file.resolve())


def _pages(out: Path, *shortened: object) -> Path:
    """Return the committed folder for a full run, and a folder in `out` for a trial."""
    return out / "results" if any(shortened) else RESULTS

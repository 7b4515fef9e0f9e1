"""The commands: one experiment, the table of defaults, and one file of all the tables there are."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.datasets import READERS
from benchmarks.papers.data.streams import find_file
from benchmarks.papers.defaults import STREAMS, contest
from benchmarks.papers.defaults import report as report_defaults
from benchmarks.papers.experiment import plan, report
from benchmarks.papers.jobs import complete
from benchmarks.papers.lineup import EXPERIMENTS, RATES

app = typer.Typer(no_args_is_help=True, help=__doc__, add_completion=False)

Data = Annotated[str | None, typer.Option(help="The data set's file, or the folder of the data sets' files.")]
Rounds = Annotated[int | None, typer.Option(min=100, help="Rounds of a run, T.")]
Seeds = Annotated[int, typer.Option(min=1, help="Runs of each setting.")]
Learners = Annotated[str, typer.Option(help="Algorithms to play, with commas; all if empty.")]
Out = Annotated[Path, typer.Option(help="Where finished runs, tables and figures are kept.")]
Backend = Annotated[str, typer.Option(help="Of joblib: loky, threading, sequential, dask, ray.")]
Jobs = Annotated[int, typer.Option(help="Runs at once; -1 for one on each core.")]

DEFAULT_OUT = Path("build/papers")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help=", ".join(EXPERIMENTS))],
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 10,
    learners: Learners = "",
    rates: Annotated[str, typer.Option(help="Exploration rates, with commas; 2^-16 to 2^-1 if empty.")] = "",
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
) -> None:
    """Plays an experiment's runs that are not finished, and writes its tables and figures."""
    console = Console()
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name} is none of {', '.join(EXPERIMENTS)}")
    stream = EXPERIMENTS[name].stream
    file = find_file(stream, data)
    if stream in READERS and file is None:
        console.print(f"skipped {name}: give the path of {READERS[stream][0]}, or of its folder, with --data")
        return
    grid = tuple(float(rate) for rate in rates.split(",")) if rates else RATES
    the_plan = plan(EXPERIMENTS[name], _absolute(file), rounds, seeds, _listed(learners), grid)
    for sentence in the_plan.left_out:
        console.print(f"left out: {sentence}")
    played = complete(the_plan.runs, out, backend, jobs)
    report(the_plan, out)
    console.print(f"{played} runs played, {len(the_plan.runs) - played} kept; see {out / name}")


@app.command()
def defaults(
    data: Data = None,
    rounds: Rounds = None,
    seeds: Seeds = 3,
    learners: Learners = "",
    streams: Annotated[str, typer.Option(help="Of " + ", ".join(STREAMS) + "; all if empty.")] = "",
    out: Out = DEFAULT_OUT,
    backend: Backend = "loky",
    jobs: Jobs = -1,
) -> None:
    """Plays every learner with its defaults and with a few settings, and writes one table."""
    console, contests = Console(), []
    for name in _listed(streams) or list(STREAMS):
        file = find_file(name, data)
        if name in READERS and file is None:
            console.print(f"skipped {name}: give the folder of {READERS[name][0]} with --data")
            continue
        contests.append(contest(name, _absolute(file), rounds or STREAMS[name], seeds, _listed(learners)))
    runs = [run for one in contests for run in one.runs]
    played = complete(runs, out, backend, jobs)
    report_defaults(contests, out)
    console.print(f"{played} runs played, {len(runs) - played} kept; see {out / 'defaults'}")


def _listed(names: str) -> list[str]:
    return names.split(",") if names else []


def _absolute(file: Path | None) -> str | None:
    return None if file is None else str(file.resolve())


@app.command()
def results(out: Out = DEFAULT_OUT) -> None:
    """Writes RESULTS.md: every table there is, in one file."""
    names = [path.parent.name for path in sorted(out.glob("*/table.md"))]
    texts = [(out / name / "table.md").read_text().replace("![](", f"![]({name}/") for name in names]
    (out / "RESULTS.md").write_text("\n".join(["# The papers' experiments\n", *texts]))
    Console().print(f"{len(names)} tables in {out / 'RESULTS.md'}")

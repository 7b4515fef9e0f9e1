"""The command `wager compare`. Imports nothing heavy, because every command imports it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from service.commands.options import fail

_EXIT_REFUSED = 1


def compare(  # noqa: PLR0913, PLR0917 - the options of a command are its parameters
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Labelled data: CSV or TSV with a header, or svmlight, compressed or not; or Parquet.",
        ),
    ],
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the true label; not for svmlight.")
    ] = None,
    learners: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help='Names with commas between them, or JSON: {"algorithm": "gaptron", "loss": "hinge"}. Repeatable.',
        ),
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Try other settings of each learner too.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Orders and draws; at least 2 for intervals.")] = 5,
    rounds: Annotated[
        int | None, typer.Option(min=4, help="Rounds of each run. Default: each row once, at most 30,000.")
    ] = None,
    random_state: Annotated[int, typer.Option("--random-state", min=0, help="What the seeds depend on.")] = 0,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column of numbers that are names. Repeatable.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. Repeatable.")] = None,
    features: Annotated[
        str, typer.Option(help="dense, named, or auto: dense if all columns are complete numbers.")
    ] = "auto",
    size: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="Indices that named features are hashed to.")] = 2**18,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether a CSV has one. Without, columns are 1, 2, ….")
    ] = True,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. Default: one for each core.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep finished runs here, and do not play them again.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the learning curves: .png, .svg or .pdf.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")] = False,
) -> None:
    """Find out which learner to use for labelled data, with which settings, and why.

    Each learner plays the rows as rounds, as a bandit: it predicts, a label is drawn, and it gets the bit. Nothing is
    sent to a service.
    """
    options = dict(locals())
    try:
        _run(options)
    except KeyboardInterrupt:
        fail("stopped" + ("" if resume is None else f"; {resume} keeps the finished runs"))


def _run(options: dict[str, Any]) -> None:
    from toolkit.compare.advice import advise
    from toolkit.files.lines import FileError

    try:
        advise(**options)
    except (FileError, ValueError) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{error.name} is not installed: pip install 'wager[tools]'")

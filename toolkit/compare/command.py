"""The command `wager compare`: recommends a learner for a file, and prints the body that creates the model."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from learners.estimators.candidates import DEFAULT_LEARNERS, candidates_of
from learners.estimators.compare import Plan, contest
from learners.estimators.report import Comparison
from service.commands.options import fail
from service.json_values import JsonObject
from toolkit.compare.examples import Data, Wish, read_data
from toolkit.compare.playing import FinishedRuns, players
from toolkit.compare.standardising import MOST_RATIO
from toolkit.evaluation.engines import local
from toolkit.files.lines import FileError
from toolkit.files.readers import model_name_of

_MOST_ROUNDS = 30_000
"""Maximum rounds of a run without `--rounds`: enough to distinguish learners, and few enough to take seconds."""

_KINDS = ("auto", "dense", "named")
_PLOTS = {".png", ".svg", ".pdf"}


def compare(
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
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order", help="Play the rows in their order, which data that drift need; then again from the first."
        ),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Orders and draws; at least 2 for intervals.")] = 5,
    rounds: Annotated[
        int | None, typer.Option(min=4, help="Rounds of each run. Default: each row once, at most 30,000.")
    ] = None,
    random_state: Annotated[
        int, typer.Option("--random-state", min=0, max=2**32 - 1, help="What the seeds depend on.")
    ] = 0,
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column of numbers that are names. Repeatable.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. Repeatable.")] = None,
    features: Annotated[
        str, typer.Option(help="dense, named, or auto: dense if all columns are complete numbers.")
    ] = "auto",
    size: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="Indices that named features are hashed to.")] = 2**18,
    standardise: Annotated[
        bool | None,
        typer.Option(
            "--standardise/--no-standardise",
            help="Bring columns of numbers to mean 0 and deviation 1. Default: if their scales differ by more than "
            "10 times.",
        ),
    ] = None,
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

    Each learner plays the rows as rounds of a bandit: it predicts, a label is drawn, and it learns whether the label is
    right; full-information learners get the true label. Nothing is sent to a service.
    """
    try:
        if features not in _KINDS:
            raise ValueError(f"--features: got {features!r}; must be one of {', '.join(_KINDS)}")
        if plot is not None and plot.suffix.lower() not in _PLOTS:
            raise ValueError(f"--plot: got {str(plot)!r}; must end with .png, .svg or .pdf")
        candidates = candidates_of(_learners(learners or [",".join(DEFAULT_LEARNERS)]))
        data = read_data(file, Wish(label, categorical or (), drop or (), features, size, header, standardise))
        most = rounds or min(data.examples.n, _MOST_ROUNDS)
        plan = Plan(seeds, most, tune, random_state, in_order=in_order)
        with (
            closing(FinishedRuns(resume, data.digest)) as finished,
            local(jobs or os.cpu_count() or 1) as engine,
        ):
            comparison = contest(candidates, data.examples, plan, players(finished, engine))
        if plot is not None:
            _draw(file, comparison, plot)
        _print(file, data, comparison, as_json=json_output)
    except ValueError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("stopped" + ("" if resume is None else f"; {resume} keeps the finished runs"))


def _learners(given: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    for text in given:
        if not text.lstrip().startswith(("{", "[")):
            found += [name.strip() for name in text.split(",") if name.strip()]
            continue
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ValueError(f"--learners: not JSON: {error}") from error
        found += value if isinstance(value, list) else [value]
    return found


def _draw(file: Path, comparison: Comparison, plot: Path) -> None:
    try:
        axes = comparison.plot()
        axes.set_title(f"{file.name}: {axes.get_title()}")
        axes.figure.savefig(plot, dpi=150)
    except ImportError as error:
        raise ValueError("--plot needs matplotlib: install wager[tools]") from error
    except OSError as error:
        raise FileError(plot, "", f"cannot be written: {error.strerror}") from error


def _print(file: Path, data: Data, comparison: Comparison, *, as_json: bool) -> None:
    console, examples = Console(soft_wrap=True), data.examples
    body = _model(file, data, comparison)
    if as_json:
        report = {
            "file": str(file),
            "rows": examples.n,
            "rounds": comparison.rounds,
            "seeds": comparison.seeds,
            "learners": comparison.rows,
            "references": comparison.references._asdict(),
            "left_out": [one._asdict() for one in comparison.left_out],
            "seconds": comparison.spent._asdict(),
            "scale_ratio": data.ratio,
            "standardised": {name: scale._asdict() for name, scale in data.scales.items()},
            "recommended": comparison.recommended,
            "why": comparison.why,
            "model": body,
        }
        console.out(json.dumps(report), highlight=False)
        return
    shape = f"{examples.n:,} rows, {len(examples.classes):,} labels, {data.features['kind']} features"
    console.out(f"{file}: {shape}; {comparison.rounds:,} rounds, {comparison.seeds} seeds; errors in percent")
    console.out("".join(f"{each}\n" for each in _of_scales(data)), highlight=False)
    console.out(str(comparison), highlight=False)
    if data.scales:
        means = {name: [float(f"{each:.6g}") for each in scale] for name, scale in data.scales.items()}
        console.out(f"\nSend (value - mean) / deviation; [mean, deviation] are:\n{json.dumps(means)}", highlight=False)
    console.out(f"\nCreate the model with POST /models:\n{json.dumps(body)}", highlight=False)


def _of_scales(data: Data) -> Iterator[str]:
    """Yield a note if columns are standardised, or have very different scales."""
    differ = f"the largest scale is {data.ratio:,.0f} times the smallest"
    if data.scales:
        yield (
            f"Columns of numbers are standardised: {differ}. The advice is for contexts that are standardised before "
            "they are sent; --no-standardise compares them as they are."
        )
    elif data.ratio > MOST_RATIO:
        yield (
            f"Warning: columns are compared as they are, but {differ}. Most learners depend on such units, so the "
            "order of the table does; --standardise compares them without units."
        )


def _model(file: Path, data: Data, comparison: Comparison) -> JsonObject:
    """Return the body of POST /models for the recommended learner."""
    row = next(row for row in comparison.rows if row["name"] == comparison.recommended)
    labels = list(map(str, data.examples.classes))
    return {"name": model_name_of(file), "labels": labels, "features": data.features, "learner": row["learner"]}

"""Compares learners on a file and prints which one to use, and the body that creates such a model."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from learners.estimators.candidates import DEFAULT_LEARNERS, Candidate, candidates_of
from learners.estimators.compare import Plan, contest
from learners.estimators.report import Comparison
from toolkit.compare.examples import Data, Wish, read_data
from toolkit.compare.playing import FinishedRuns, players
from toolkit.evaluation.engines import local
from toolkit.files.lines import FileError

_MOST_ROUNDS = 30_000
"""Rounds without `--rounds`: enough to tell learners apart, in seconds."""

_KINDS = ("auto", "dense", "named")
_PLOTS = {".png", ".svg", ".pdf"}


def advise(file: Path, **options: Any) -> None:
    """Run the command."""
    plot, features = options["plot"], options["features"]
    if features not in _KINDS:
        raise ValueError(f"--features: got {features!r}; must be one of {', '.join(_KINDS)}")
    if plot is not None and plot.suffix.lower() not in _PLOTS:
        raise ValueError(f"--plot: got {str(plot)!r}; must end with .png, .svg or .pdf")
    candidates = candidates_of(_learners(options["learners"] or [",".join(DEFAULT_LEARNERS)]))
    columns = {name: options[name] or () for name in ("categorical", "drop")}
    wish = Wish(options["label"], **columns, kind=features, size=options["size"], has_header=options["header"])
    data = read_data(file, wish)
    comparison = _compared(candidates, data, options)
    if plot is not None:
        _draw(comparison, plot)
    body = _model(file, data, comparison)
    if options["json_output"]:
        Console().out(json.dumps(_json(file, data, comparison, body)), highlight=False)
    else:
        _print(file, data, comparison, body)


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


def _compared(candidates: Sequence[Candidate], data: Data, options: dict[str, Any]) -> Comparison:
    rounds = options["rounds"] or min(data.examples.n, _MOST_ROUNDS)
    plan = Plan(options["seeds"], rounds, options["tune"], options["random_state"])
    jobs = options["jobs"] or os.cpu_count() or 1
    with closing(FinishedRuns(options["resume"], data.digest)) as finished, _progress() as note, local(jobs) as engine:
        return contest(candidates, data.examples, plan, players(finished, engine, note))


@contextmanager
def _progress() -> Iterator[Any]:
    """Show the finished runs on standard error."""
    columns = TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("runs", total=None)
        yield lambda count, total: shown.update(task, completed=count, total=total)


def _draw(comparison: Comparison, plot: Path) -> None:
    try:
        comparison.plot().figure.savefig(plot, dpi=150)
    except ImportError as error:
        raise ValueError("--plot needs matplotlib: install wager[tools]") from error
    except OSError as error:
        raise FileError(plot, "", f"cannot be written: {error.strerror}") from error


def _model(file: Path, data: Data, comparison: Comparison) -> dict[str, Any]:
    """Return the body of POST /models for the recommended learner."""
    row = next(row for row in comparison.rows if row["name"] == comparison.recommended)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name.partition(".")[0]).lstrip("._-")[:64] or "model"
    labels = list(map(str, data.examples.classes))
    return {"name": name, "labels": labels, "features": data.features, "learner": row["learner"]}


def _json(file: Path, data: Data, comparison: Comparison, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "file": str(file),
        "rows": data.examples.n,
        "rounds": comparison.rounds,
        "seeds": comparison.seeds,
        "learners": comparison.rows,
        "references": comparison.references._asdict(),
        "left_out": [one._asdict() for one in comparison.left_out],
        "recommended": comparison.recommended,
        "why": comparison.why,
        "model": body,
    }


def _print(file: Path, data: Data, comparison: Comparison, body: dict[str, Any]) -> None:
    console, examples = Console(soft_wrap=True), data.examples
    shape = f"{examples.n:,} rows, {len(examples.classes):,} labels, {data.features['kind']} features"
    console.out(f"{file}: {shape}; {comparison.rounds:,} rounds, {comparison.seeds} seeds; errors in percent\n")
    console.out(str(comparison), highlight=False)
    console.out(f"\nCreate the model with POST /models:\n{json.dumps(body)}", highlight=False)

"""`wager evaluate`: what other policies would have got, from the log of a model."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from service.commands.options import fail
from toolkit.remote import DEFAULT_URL, Key, RemoteError, Url

if TYPE_CHECKING:
    from service.schemas.reports import EvaluationAnswer
    from toolkit.evaluation.columns import LoggedModel
    from toolkit.evaluation.engines import Engine
    from toolkit.evaluation.policies import Specification

_T = TypeVar("_T")


class EngineName(StrEnum):
    """Where parts are computed."""

    JOBLIB = "joblib"
    DASK = "dask"


class _Options(NamedTuple):
    policies: list[str]
    learners: list[str]
    choices: list[Path]
    jobs: int
    engine: EngineName
    scheduler: str | None
    replicates: int
    seed: int
    clip: float | None


def evaluate(  # noqa: PLR0913, PLR0917  each is an option
    source: Annotated[
        Path | None, typer.Argument(help="A Parquet file of `wager export`, or a folder of them. Unset: a service.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    model: Annotated[str | None, typer.Option(help="The model of a running service.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="uniform, best-constant or constant:LABEL. Repeatable. Default: uniform, best-constant."),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(help="An algorithm, or JSON with its hyperparameters: learns the log round by round. Repeatable."),
    ] = None,
    choices: Annotated[
        list[Path] | None,
        typer.Option(help="CSV or Parquet: round, label, and probability for distributions. Repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes for the parts of a folder.")] = 1,
    engine: Annotated[EngineName, typer.Option(help="Where parts are computed.")] = EngineName.JOBLIB,
    scheduler: Annotated[str | None, typer.Option(help="The address of the scheduler of a Dask cluster.")] = None,
    replicates: Annotated[int, typer.Option(min=20, max=100_000, help="Replicates of the bootstrap.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="The seed of the bootstrap and of replay.")] = 1,
    clip: Annotated[float | None, typer.Option(min=1.0, help="The largest weight of clipped IPS. Default: √n.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a figure, such as values.png.")] = None,
) -> None:
    """Estimate what other policies would have got, from the log of a model with its propensities."""
    from toolkit.evaluation.columns import EvaluationError
    from toolkit.files.lines import FileError

    options = _Options(policy or [], learner or [], choices or [], jobs, engine, scheduler, replicates, seed, clip)
    try:
        answer = _evaluated(source, (url, api_key, model), options)
        if plot is not None:
            _plotted(answer, plot)
    except (EvaluationError, FileError, RemoteError) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{error.name} is not installed: pip install 'wager[tools]'")
    if json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        _show(answer)


def _evaluated(
    source: Path | None, service: tuple[str, str | None, str | None], options: _Options
) -> "EvaluationAnswer":
    from toolkit.evaluation.evaluation import Request
    from toolkit.evaluation.evaluation import evaluate as run

    logged, parts = _log(source, *service)
    request = Request(_specifications(options, logged), options.replicates, options.seed, options.clip)
    with _engine(options) as engine:
        return run(parts, logged, request, engine, _progress)


def _log(source: Path | None, url: str, key: str | None, model: str | None) -> tuple["LoggedModel", list[Any]]:
    from toolkit.evaluation.columns import EvaluationError, LoggedModel

    if (source is None) == (model is None):
        raise EvaluationError("name a file or folder, or a model with --model, and not both")
    if source is None:
        from toolkit.evaluation.remote_log import remote_parts

        answer, remote = remote_parts(url, key, str(model))
        return LoggedModel(answer, f"{url}/models/{model}"), list(remote)
    from toolkit.evaluation.parquet import described_model, parts_of

    parts = parts_of(source)
    last = parts[-1]  # later parts may have labels that were added during the export
    return LoggedModel(described_model(last), last.name), list(parts)


def _specifications(options: _Options, model: "LoggedModel") -> "list[Specification]":
    from toolkit.evaluation.policies import Specification, read_learner, read_policy

    fixed = options.policies
    if not (fixed or options.learners or options.choices):
        fixed = ["uniform"] if model.has_actions else ["uniform", "best-constant"]
    chosen = [Specification("served"), *[read_policy(text, model) for text in fixed]]
    chosen += [Specification("choices", str(path)) for path in options.choices]
    return list(dict.fromkeys(chosen + [read_learner(text, model) for text in options.learners]))


def _engine(options: _Options) -> "Engine":
    from toolkit.evaluation.columns import EvaluationError
    from toolkit.evaluation.engines import Dask, Engine, Joblib

    if options.engine is EngineName.DASK:
        if options.scheduler is None:
            raise EvaluationError("--engine dask needs --scheduler, the address of an existing cluster")
        return Dask(options.scheduler)
    if options.scheduler is not None:
        raise EvaluationError("--scheduler is for --engine dask")
    return Engine() if options.jobs == 1 else Joblib(options.jobs)


def _plotted(answer: "EvaluationAnswer", path: Path) -> None:
    from toolkit.evaluation.plot import plot

    plot(answer, path)


def _progress(what: str, results: Iterator[_T], total: int) -> Iterator[_T]:
    from rich.console import Console
    from rich.progress import track

    return iter(track(results, what, total=total, console=Console(stderr=True), transient=True))


def _show(answer: "EvaluationAnswer") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("policy", "estimator", "value", "95 % interval", "conservative", title=_title(answer))
    for policy in answer.policies:
        name = policy.policy + (f" {policy.label}" if policy.label else "")
        conservative = f"{policy.low:.4f} - {policy.high:.4f}"
        for found in policy.estimates:
            ends = "" if found.low is None or found.high is None else f"{found.low:.4f} - {found.high:.4f}"
            table.add_row(name, found.estimator, f"{found.value:.4f}", ends, conservative)
            name = conservative = ""
        table.add_section()
    console.print(table)
    for policy in answer.policies:
        for warning in policy.warnings:
            console.print(f"{policy.policy} {policy.label or ''}: {warning}", highlight=False, markup=False)
    for note in answer.notes:
        console.print(note, highlight=False, markup=False)


def _title(answer: "EvaluationAnswer") -> str:
    return f"{answer.model}: rounds {answer.first_round} to {answer.last_round}"

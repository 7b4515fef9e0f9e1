"""`wager evaluate`: estimates what other policies would have earned, from the log of a model."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from service.schemas.reports import AbstentionValue, EstimateAnswer, EvaluationAnswer
from toolkit.evaluation.columns import EvaluationError, LoggedModel
from toolkit.evaluation.engines import Dask, Engine, local
from toolkit.evaluation.evaluation import Request
from toolkit.evaluation.evaluation import evaluate as evaluate_policies
from toolkit.evaluation.parquet import described_model, parts_of
from toolkit.evaluation.passes import Part
from toolkit.evaluation.plot import plot as draw
from toolkit.evaluation.policies import Specification, read_learner, read_policy
from toolkit.evaluation.remote_log import remote_parts
from toolkit.evaluation.rows import described_rows
from toolkit.files import options
from toolkit.files.columns import Chosen
from toolkit.files.tables import is_parquet
from toolkit.remote import DEFAULT_URL, Key, Url


class EngineName(StrEnum):
    """Where the parts of a log are computed."""

    JOBLIB = "joblib"
    DASK = "dask"


def evaluate(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A Parquet file of `wager export`, or a folder of them; or CSV, NDJSON or dsjson with propensities, "
            "as `wager replay` reads them. Unset: a service."
        ),
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
    label_column: options.LabelColumn = None,
    propensity_column: options.PropensityColumn = None,
    reward_column: options.RewardColumn = None,
    feature_columns: options.FeatureColumns = None,
    feature_prefix: options.FeaturePrefix = None,
    text_columns: options.TextColumns = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes for the parts of a folder.")] = 1,
    engine: Annotated[EngineName, typer.Option(help="Where parts are computed.")] = EngineName.JOBLIB,
    scheduler: Annotated[str | None, typer.Option(help="The address of the scheduler of a Dask cluster.")] = None,
    replicates: Annotated[int, typer.Option(min=20, max=100_000, help="Replicates of the bootstrap.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="The seed of the bootstrap and of replay.")] = 1,
    clip: Annotated[
        float | None, typer.Option(min=1.0, help="The largest weight of clipped IPS. Default: √n, at least 10.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a figure, such as values.png.")] = None,
) -> None:
    """Estimate what other policies would have earned, from the log of a model with its propensities."""
    if (source is None) == (model is None):
        raise EvaluationError("name a file or folder, or a model with --model, and not both")
    features, text = options.names_in(feature_columns), options.names_in(text_columns)
    chosen = Chosen(label_column, propensity_column, reward_column, features, feature_prefix, text)
    if source is None:
        if chosen != Chosen():
            raise EvaluationError("options of columns are for files; the log of a model has its own")
        logged, parts = _remote_log(url, api_key, str(model))
    else:
        logged, parts = _log_of(source, chosen)
    specifications = _specifications(logged, policy or [], choices or [], learner or [])
    with _engine(engine, jobs, scheduler) as running:
        request = Request(specifications, replicates, seed, clip)
        answer = evaluate_policies(parts, logged, request, running)
    if plot is not None:
        draw(answer, plot)
    if json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        _show(answer)


def _remote_log(url: str, key: str | None, name: str) -> tuple[LoggedModel, list[Part]]:
    answer, parts = remote_parts(url, key, name)
    return LoggedModel(answer, f"{url}/models/{name}"), list(parts)


def _log_of(source: Path, chosen: Chosen) -> tuple[LoggedModel, list[Part]]:
    if not source.is_dir() and not is_parquet(source):
        model, part = described_rows(source, chosen)
        return LoggedModel(model, part.name), [part]
    if chosen != Chosen():
        raise EvaluationError("options of columns are for CSV; Parquet has the columns of `wager export`")
    parts = parts_of(source)
    last = parts[-1]  # later parts may contain labels that were added during the export
    return LoggedModel(described_model(last), last.name), list(parts)


def _specifications(
    model: LoggedModel, policies: list[str], choices: list[Path], learners: list[str]
) -> list[Specification]:
    if not (policies or learners or choices):
        policies = ["uniform"] if model.has_actions else ["uniform", "best-constant"]
    chosen = [Specification("served"), *[read_policy(text, model) for text in policies]]
    chosen += [Specification("choices", str(path)) for path in choices]
    return list(dict.fromkeys(chosen + [read_learner(text, model) for text in learners]))


def _engine(name: EngineName, jobs: int, scheduler: str | None) -> Engine:
    if name is EngineName.JOBLIB:
        if scheduler is not None:
            raise EvaluationError("--scheduler is for --engine dask")
        return local(jobs)
    if scheduler is None:
        raise EvaluationError("--engine dask needs --scheduler, the address of an existing cluster")
    return Dask(scheduler)


def _ends(found: EstimateAnswer | AbstentionValue) -> str:
    return "" if found.low is None or found.high is None else f"{found.low:.4f} - {found.high:.4f}"


def _abstention(found: AbstentionValue | None) -> Iterator[tuple[str, float, str]]:
    """Yield the name, the value and the interval of each abstention statistic of a policy, if it abstains."""
    if found is None:
        return
    if found.accuracy is not None:
        yield "accuracy", found.accuracy, _ends(found)
    yield "abstention rate", found.rate, ""
    yield "abstention cost", found.cost, ""


def _show(answer: EvaluationAnswer) -> None:
    console, title = Console(), f"{answer.model}: rounds {answer.first_round} to {answer.last_round}"
    table = Table("policy", title=title)
    for name in ("estimator", "value", "95 % interval"):
        table.add_column(name, no_wrap=True)
    table.add_column("reason for doubt")
    for policy in answer.policies:
        name = policy.policy + (f" {policy.label}" if policy.label else "")
        for found in policy.estimates:
            style = None if found.doubt is None else "dim"
            table.add_row(name, found.estimator, f"{found.value:.4f}", _ends(found), found.doubt, style=style)
            name = ""
        table.add_row(name, "conservative", "", f"{policy.low:.4f} - {policy.high:.4f}", "")
        for label, value, ends in _abstention(policy.abstention):
            table.add_row("", label, f"{value:.4f}", ends, "")
        if (cost := policy.cost) is not None:
            table.add_row("", "mean cost", f"{cost.value:.4f}", _ends(cost), cost.doubt)
        table.add_section()
    console.print(table)
    warnings = [
        f"{' '.join(filter(None, (each.policy, each.label)))}: {text}"
        for each in answer.policies
        for text in each.warnings
    ]
    for note in [*warnings, *answer.notes]:
        console.print(note, highlight=False, markup=False)

"""The command `wager load`. Imports nothing heavy, because every command imports it."""

from pathlib import Path
from typing import Annotated, Any

import typer


def load(  # noqa: PLR0913, PLR0917 - the options of a command are its parameters
    url: Annotated[str, typer.Option(help="URL of the service.")] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Key to send as `Authorization: Bearer`.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Predict requests per second, over all processes. Default: 200.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of the measurement. Default: 20.")] = None,
    requests: Annotated[int | None, typer.Option(help="Approximate number of requests, instead of --seconds.")] = None,
    warm_up: Annotated[float | None, typer.Option(help="Seconds of load before the measurement. Default: 2.")] = None,
    processes: Annotated[int | None, typer.Option(help="Generator processes. Default: 1.")] = None,
    connections: Annotated[int | None, typer.Option(help="Connections of each process. Default: 32.")] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(help="Maximum requests in flight in each process; further ones are not sent. Default: 1000."),
    ] = None,
    models: Annotated[int | None, typer.Option(help="Models to create and use in turn. Default: 1.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of the models' names. Default: load.")] = None,
    keep: Annotated[bool | None, typer.Option("--keep", help="Do not delete the models.")] = None,
    labels: Annotated[int | None, typer.Option(help="K, labels of each model. Default: 10.")] = None,
    features: Annotated[int | None, typer.Option(help="d, features of each context. Default: 20.")] = None,
    nonzeros: Annotated[int | None, typer.Option(help="Non-zeros of each context. Unset: contexts are dense.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Contexts in each request; from 2, uses the batch endpoints. Default: 1.")
    ] = None,
    duplicates: Annotated[float | None, typer.Option(help="Share of feedback to send twice. Default: 0.05.")] = None,
    delay: Annotated[
        float | None, typer.Option(help="Mean seconds from a prediction to its feedback. Default: 0.5.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="Name, or JSON with hyperparameters. Unset: the service's default.")
    ] = None,
    true_labels: Annotated[
        bool | None, typer.Option("--true-labels", help="Send true labels, for learners under full information.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of contexts, labels, arrival times and duplicates. Default: 1.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait for a response. Default: 30.")] = None,
    settle: Annotated[
        float | None, typer.Option(help="Seconds to retry unanswered requests at the end. Default: 60.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File for the report as JSON; - for standard output.")
    ] = None,
) -> None:
    """Load a running service, measure latencies, and audit the logs.

    Latencies count from the moment when each request was due.

    Exit codes:
    0: the logs hold every acknowledged feedback once.
    1: acknowledged feedback is lost, repeated or altered.
    2: the load could not run.
    3: outcomes stayed unknown.
    """
    options = {name: value for name, value in locals().items() if value is not None and name != "json_file"}
    raise typer.Exit(_run(options, json_file))


def _run(options: dict[str, Any], json_file: Path | None) -> int:
    from toolkit.load.client import LoadError
    from toolkit.load.plan import Plan
    from toolkit.load.run import EXIT_CANNOT, run

    try:
        return run(Plan.from_options(options), json_file)
    except LoadError as error:
        typer.echo(f"wager: {error}", err=True)
        return EXIT_CANNOT

"""The options of the command `wager load`. Every command imports this module, so it stays light."""

from pathlib import Path
from typing import Annotated, Any

import typer


def load(  # noqa: PLR0913, PLR0917 - the options of a command are its parameters
    url: Annotated[str, typer.Option(help="URL of the installation.")] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Sent as `Authorization: Bearer …`.", show_envvar=True)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Predict requests per second, over all processes [200].")] = None,
    seconds: Annotated[float | None, typer.Option(help="Measured seconds [20].")] = None,
    requests: Annotated[int | None, typer.Option(help="Approximate number of requests, instead of --seconds.")] = None,
    warm_up: Annotated[float | None, typer.Option(help="Seconds of load before the measurement [2].")] = None,
    processes: Annotated[int | None, typer.Option(help="Generator processes [1].")] = None,
    connections: Annotated[int | None, typer.Option(help="Connections of each process [32].")] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Most outstanding requests per process; those above it are not sent [1000].")
    ] = None,
    models: Annotated[int | None, typer.Option(help="Number of models to create and use in turn [1].")] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of the models' names [load].")] = None,
    keep: Annotated[bool | None, typer.Option("--keep", help="Keep the models after the run.")] = None,
    labels: Annotated[int | None, typer.Option(help="Labels of each model, K [10].")] = None,
    features: Annotated[int | None, typer.Option(help="Features of each context, d [20].")] = None,
    nonzeros: Annotated[int | None, typer.Option(help="Non-zeros of each context; makes contexts sparse.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Contexts per request; from 2 on, it uses the batch endpoints [1].")
    ] = None,
    duplicates: Annotated[float | None, typer.Option(help="Share of feedback sent twice, 0 to 1 [0.05].")] = None,
    delay: Annotated[float | None, typer.Option(help="Mean seconds from an answer to its feedback [0.5].")] = None,
    learner: Annotated[str | None, typer.Option(help="Name of the learner, or JSON with its hyperparameters.")] = None,
    true_labels: Annotated[
        bool | None, typer.Option("--true-labels", help="Send the true label, for learners under full information.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of contexts, labels, times and duplicates [1].")] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a request counts as unanswered [30].")
    ] = None,
    settle: Annotated[
        float | None, typer.Option(help="Most seconds to repeat unanswered requests at the end [60].")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File for the report as JSON; - for standard output.")
    ] = None,
) -> None:
    """Load a running installation, measure latencies from when requests were due, and audit its logs.

    Exit codes: 0 if the logs hold every acknowledged feedback once, 1 if one is
    lost, repeated or altered, 2 if the load could not run, and 3 if outcomes
    stayed unknown.
    """
    options = {name: value for name, value in locals().items() if value is not None and name != "json_file"}
    raise typer.Exit(_run(options, json_file))


def _run(options: dict[str, Any], json_file: Path | None) -> int:
    from service.load.http.errors import LoadError
    from service.load.plan import Plan
    from service.load.run import EXIT_CANNOT, run

    try:
        return run(Plan.from_options(options), json_file)
    except LoadError as error:
        typer.echo(f"wager: {error}", err=True)
        return EXIT_CANNOT

"""The command `wager load`: options, for a plan. Light, as it is imported by every command."""

from pathlib import Path
from typing import Annotated, Any

import typer


def load(  # noqa: PLR0913, PLR0917 - the options of a command are its parameters
    url: Annotated[str, typer.Option(help="The installation to load.")] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Sent as `Authorization: Bearer …`.", show_envvar=True)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Predict requests a second, over all processes [200].")] = None,
    seconds: Annotated[float | None, typer.Option(help="How long to measure [20].")] = None,
    requests: Annotated[int | None, typer.Option(help="Instead of --seconds: about how many requests.")] = None,
    warm_up: Annotated[float | None, typer.Option(help="Seconds of load before that [2].")] = None,
    processes: Annotated[int | None, typer.Option(help="Generator processes [1].")] = None,
    connections: Annotated[int | None, typer.Option(help="Connections of each process [32].")] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Most requests under way in each process; beyond, they are not sent [1000].")
    ] = None,
    models: Annotated[int | None, typer.Option(help="Models to create and use in turn [1].")] = None,
    prefix: Annotated[str | None, typer.Option(help="What their names begin with [load].")] = None,
    keep: Annotated[bool | None, typer.Option("--keep", help="Leave the models there.")] = None,
    labels: Annotated[int | None, typer.Option(help="K, labels of each model [10].")] = None,
    features: Annotated[int | None, typer.Option(help="d, features of each context [20].")] = None,
    nonzeros: Annotated[int | None, typer.Option(help="Sparse contexts with so many non-zeros.")] = None,
    batch: Annotated[int | None, typer.Option(help="Contexts in each request; from 2 on, batch endpoints [1].")] = None,
    duplicates: Annotated[float | None, typer.Option(help="Share of feedback sent twice, 0 to 1 [0.05].")] = None,
    delay: Annotated[float | None, typer.Option(help="Mean seconds from an answer to its feedback [0.5].")] = None,
    learner: Annotated[str | None, typer.Option(help="Its name, or JSON with its hyperparameters.")] = None,
    true_labels: Annotated[
        bool | None, typer.Option("--true-labels", help="Tell the true label, for learners under full information.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides contexts, labels, moments and duplicates [1].")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which no answer came [30].")] = None,
    settle: Annotated[float | None, typer.Option(help="Most seconds to ask again at the end [60].")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report as JSON to this file; - for standard output.")
    ] = None,
) -> None:
    """Load a running installation, measure from when requests were due, and audit its logs.

    Ends with 0 when the logs hold every acknowledged feedback once, with 1 when
    one is lost, repeated or altered, with 2 when the load could not be run, and
    with 3 when outcomes stayed unknown.
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

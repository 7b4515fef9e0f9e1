"""The command `wager load`."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit.load.plan import Plan
from toolkit.load.run import run


def load(**options: Any) -> None:
    """Load a running service, measure latencies, and audit the logs.

    Latencies count from the moment when each request was due.

    Exit codes:
    0: the logs contain each acknowledged feedback exactly once.
    1: the logs, or the models' counts, contradict what the service acknowledged.
    2: the load could not run.
    3: outcomes stayed unknown.
    """
    json_file = options.pop("json_file")
    raise typer.Exit(run(Plan.from_options(**options), json_file))


_JSON = Annotated[Path | None, typer.Option("--json", help="File for the report as JSON; - for standard output.")]
_PARAMETERS = [
    *inspect.signature(Plan).parameters.values(),
    inspect.Parameter("json_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_JSON),
]
load.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]  # typer reads both
load.__annotations__ = {each.name: each.annotation for each in _PARAMETERS}

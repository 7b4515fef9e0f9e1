"""The commands of the toolkit. The service imports them when one of them is used."""

from typing import Annotated

import typer

from service.commands.options import EXIT_REFUSED, fail
from toolkit.backup import backup
from toolkit.compare.command import compare
from toolkit.evaluation.command import evaluate
from toolkit.export import export
from toolkit.load.command import load
from toolkit.repair import repair
from toolkit.replay import replay
from toolkit.restore import restore

app = typer.Typer()


@app.command()
def demo(
    url: Annotated[
        str | None, typer.Option(help="URL of the service. Unset: use one on port 8000, or start one.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of predictions.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated data.")] = 1,
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Key with the scope admin, if the service needs one.")
    ] = None,
) -> None:
    """Watch a model learn ten classes from right-or-wrong feedback, over HTTP."""
    from toolkit.demo import DemoError, run

    try:
        run(url, rounds, seed, api_key)
    except DemoError as error:
        fail(str(error), EXIT_REFUSED)


for command in (evaluate, load, replay, export, repair, compare, backup, restore):
    app.command()(command)

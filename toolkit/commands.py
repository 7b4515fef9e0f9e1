"""The commands of the toolkit. The service imports them when one of them is used."""

import functools
from collections.abc import Callable
from typing import Any

import typer

from service.commands.options import fail
from toolkit import ToolError
from toolkit.backup import backup
from toolkit.compare.command import compare
from toolkit.demo import demo
from toolkit.evaluation.command import evaluate
from toolkit.export import export
from toolkit.load.command import load
from toolkit.repair import repair
from toolkit.replay import replay
from toolkit.restore import restore

app = typer.Typer()


def _with_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command; errors for the user end it with one line on standard error."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except ToolError as error:
            fail(str(error), error.exit_code)
        except ImportError as error:
            fail(f"{error.name} is not installed: pip install 'wager[tools]'")
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))

    return run


for each in (demo, evaluate, load, replay, export, repair, compare, backup, restore):
    app.command()(_with_errors(each))

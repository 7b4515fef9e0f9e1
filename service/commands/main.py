"""The command `wager`.

Exit codes of `wager serve`: 0 after a stop by signal, 2 for wrong settings, 3 if the application did not start, 4 if
the address is not available, 5 if the embedded store cannot run.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service import __version__
from service.commands import keys
from service.commands.repair import repair
from service.commands.shared.options import EXIT_REFUSED, fail
from service.commands.tools.backup import backup
from service.commands.tools.compare.command import compare
from service.commands.tools.data.export import export
from service.commands.tools.data.replay import replay
from service.commands.tools.evaluate import evaluate
from service.commands.tools.restore import restore
from service.load.command import load
from service.processes import exit_despite_threads

_ORDER = (
    "serve", "demo", "load", "compare", "replay", "export", "evaluate", "keys", "backup", "restore", "repair", "version"
)  # fmt: skip


class _Commands(TyperGroup):
    """The commands; builds `serve` when it is used, because its options are the settings, whose import is slow."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        self.get_command(ctx, "serve")
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None. For an unknown name, build `serve` too, so that it can be suggested."""
        if cmd_name not in self.commands:
            self.commands["serve"] = _serve_command()
        return super().get_command(ctx, cmd_name)


def _serve_command() -> Any:
    from service.commands.serve import serve
    from service.commands.serve_options import with_options

    single = typer.Typer(add_completion=False)
    single.command("serve")(with_options(serve))
    return typer.main.get_command(single)


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line. This is the entry point of `wager`."""
    try:
        app(prog_name="wager")
    except SystemExit as ended:
        if isinstance(ended.code, int):
            exit_despite_threads(ended.code)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def wager(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run an online prediction service that learns from right-or-wrong feedback."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


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
    from service.commands.demo import DemoError, run

    try:
        run(url, rounds, seed, api_key)
    except DemoError as error:
        fail(str(error), EXIT_REFUSED)


app.command()(evaluate)
app.command()(load)
app.command()(replay)
app.command()(export)
app.command()(repair)
app.command()(compare)
app.command()(backup)
app.command()(restore)
app.add_typer(keys.app, name="keys")

"""The command `wager`, also `python -m service`.

Exit codes of `wager serve`: 0 after a stop by signal, 2 for invalid settings, 3 if the application did not start, 4 if
the address is not available, 5 if the embedded store cannot start, or may have lost data when it stopped.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service import __version__
from service.commands import keys
from service.processes import exit_despite_threads

_ORDER = (
    "serve", "demo", "load", "compare", "fit", "replay", "export", "evaluate", "keys", "backup", "restore", "repair",
    "memory", "version",
)  # fmt: skip


class _Commands(TyperGroup):
    """The commands. Most are imported when first used, so that `wager serve` does not load the toolkit."""

    def list_commands(self, ctx: object) -> list[str]:
        for name in _ORDER:
            self.get_command(ctx, name)
        return list(_ORDER)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _ORDER:  # unknown: import all commands, so that the error can suggest a similar name
            self.list_commands(ctx)
        elif cmd_name not in self.commands:
            self.commands[cmd_name] = _imported(cmd_name)
        return super().get_command(ctx, cmd_name)


def _imported(name: str) -> Any:
    if name == "serve":
        from service.commands.serve import serve
        from service.commands.serve_options import with_options

        function = with_options(serve)
    else:
        from toolkit.commands import command

        function = command(name)
    single = typer.Typer(add_completion=False)
    single.command(name)(function)
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


app.add_typer(keys.app, name="keys")

if __name__ == "__main__":
    main()

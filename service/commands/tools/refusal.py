"""The end of a command that cannot do its work."""

from typing import NoReturn

import typer

EXIT_REFUSED = 1


def refuse(message: str) -> NoReturn:
    """Print one line to stderr, and end the command."""
    typer.echo(f"wager: {message}", err=True)
    raise typer.Exit(EXIT_REFUSED)

"""The command `wager repair`.

It reads the store of WAGER_STORE_URL, or the embedded one in WAGER_DATA_DIR, whether a service runs on it or not.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.options import fail, use_store

if TYPE_CHECKING:
    from service.store.redis.open_store import OpenStore

EXIT_DAMAGED = 1
EXIT_NAME = 2


def repair(
    model: Annotated[str | None, typer.Option(help="Name of the only model to search.")] = None,
) -> None:
    """List what is damaged in the store. Nothing is changed.

    Definitions, snapshots, logs and open predictions are read, and what workers have recorded as damaged is listed.
    The exit code is 0 when nothing is damaged, and 1 when something is.
    """
    damaged = use_store(partial(_search, model))
    typer.echo(f"{damaged} damaged" if damaged else "nothing is damaged")
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


async def _search(name: str | None, opened: "OpenStore") -> int:
    """Print each finding; return how many are damage."""
    from service.catalogue.repair import search
    from service.errors import ModelNotFoundError

    damaged = 0
    try:
        async for finding in search(opened.store, name):
            typer.echo(str(finding))
            damaged += finding.damaged
    except ModelNotFoundError as error:
        fail(str(error), EXIT_NAME)
    return damaged

"""The command `wager repair`.

Reads the store of WAGER_STORE_URL, or the embedded one in WAGER_DATA_DIR, with or without a running service.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.shared.options import fail, use_store

if TYPE_CHECKING:
    from service.store.redis.open_store import OpenStore

EXIT_DAMAGED = 1
EXIT_NAME = 2


def repair(
    model: Annotated[str | None, typer.Option(help="Search this model only.")] = None,
) -> None:
    """Find damage in the store, without changing anything.

    Reads definitions, snapshots, logs and open predictions, and lists damage.

    Exit codes: 0 without damage, 1 with damage, 2 for an unknown model or invalid settings, 5 if the store does not
    answer.
    """
    damaged = use_store(partial(_search, model))
    typer.echo(f"{damaged} damaged" if damaged else "nothing is damaged")
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


async def _search(name: str | None, opened: "OpenStore") -> int:
    """Print each finding; return the number of damaged records."""
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

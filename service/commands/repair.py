"""The command `wager repair`.

It reads the store of WAGER_STORE_URL, or the embedded one in WAGER_DATA_DIR, whether a service runs on it or not.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from service.settings import Settings

EXIT_DAMAGED = 1
EXIT_NAME = 2
EXIT_STORE = 5


def repair(
    model: Annotated[str | None, typer.Option(help="Name of the only model to search.")] = None,
) -> None:
    """List what is damaged in the store. Nothing is changed.

    Definitions, snapshots, logs and open predictions are read, and what workers have recorded as damaged is listed.
    The exit code is 0 when nothing is damaged, and 1 when something is.
    """
    from service.commands.keys import store_url
    from service.commands.main import read_settings
    from service.errors import StoreError
    from service.store.embedded.server import EmbeddedServerError

    settings = read_settings()
    try:
        with store_url(settings) as url:
            damaged = asyncio.run(_search(url, settings, model))
    except (StoreError, EmbeddedServerError) as error:
        typer.echo(f"wager: {error}", err=True)
        raise typer.Exit(EXIT_STORE) from None
    typer.echo(f"{damaged} damaged" if damaged else "nothing is damaged")
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


async def _search(url: str, settings: "Settings", name: str | None) -> int:
    """Print each finding; return how many are damage."""
    from service.catalogue.repair import search
    from service.errors import ModelNotFoundError
    from service.store.connections.connections import TlsFiles
    from service.store.redis.redis_store import RedisStore

    tls, damaged = TlsFiles(settings.store_ca_file, settings.store_cert_file, settings.store_key_file), 0
    store = RedisStore(url, settings.store_timeout_seconds, tls)
    try:
        async for finding in search(store, name):
            typer.echo(str(finding))
            damaged += finding.damaged
    except ModelNotFoundError as error:
        typer.echo(f"wager: {error}", err=True)
        raise typer.Exit(EXIT_NAME) from None
    finally:
        await store.close()
    return damaged

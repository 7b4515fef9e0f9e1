"""The commands `wager keys`: whoever may reach the store may make keys, so they need none themselves.

They write to the store of WAGER_STORE_URL, or to the embedded one in WAGER_DATA_DIR, whether a service runs on it
or not. A running service sees a new key at once, and a revoked one within WAGER_KEY_CACHE_SECONDS.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from service.access.key_admin import IssuedKey, KeyAdmin
    from service.access.keys import KeyRecord
    from service.settings import Settings

EXIT_REFUSED = 1
EXIT_STORE = 5

app = typer.Typer(no_args_is_help=True, help="Make, list, rotate and revoke API keys.")

_T = TypeVar("_T")
_HEADS = ("id", "name", "scopes", "models", "limit", "expires")
_Id = Annotated[str, typer.Argument(help="The key's id: the 12 digits behind wk_.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, for you to remember.")],
    scope: Annotated[list[str], typer.Option(help="predict, feedback, read or admin; may be repeated.")],
    models: Annotated[str, typer.Option(help="Names of models it is for, such as 'shop-*'.")] = "*",
    limit: Annotated[str | None, typer.Option(help="Most requests, such as 100/second.")] = None,
    expires_in_days: Annotated[float | None, typer.Option(min=0, help="Its life; else it has no end.")] = None,
) -> None:
    """Make a key and print it: it cannot be shown again."""
    seconds = None if expires_in_days is None else expires_in_days * 86_400
    _print_issued(_administer(lambda admin: admin.create(name, scope, models, limit, seconds)))


@app.command("list")
def list_keys() -> None:
    """List the keys, without their secrets."""
    keys = _administer(lambda admin: admin.all())
    rows = [_HEADS, *(_row(key_id, record) for key_id, record in keys.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def rotate(
    key_id: _Id,
    overlap_hours: Annotated[float, typer.Option(min=0, help="How long the old key stays good.")] = 24.0,
) -> None:
    """Make a key like this one and print it; this one ends after a while."""
    _print_issued(_administer(lambda admin: admin.rotate(key_id, overlap_hours * 3600)))


@app.command()
def revoke(key_id: _Id) -> None:
    """Take a key out of use."""
    _administer(lambda admin: admin.revoke(key_id))


def _print_issued(issued: "IssuedKey") -> None:
    typer.echo(f"Key {issued.id}: keep it now, it cannot be shown again.", err=True)
    typer.echo(issued.text)


def _row(key_id: str, record: "KeyRecord | None") -> tuple[str, ...]:
    if record is None:
        return (key_id, "(unreadable: admits nobody)", "", "", "", "")
    ends = "" if record.expires_at is None else f"{datetime.fromtimestamp(record.expires_at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return (key_id, record.name, ",".join(record.scopes), record.models, record.limit or "", ends)


def _administer(work: Callable[["KeyAdmin"], Awaitable[_T]]) -> _T:
    """Does some work at the session of the store that the settings name; ends the command where that fails."""
    from service.commands.main import read_settings
    from service.errors import StoreError, WagerError
    from service.store.embedded.server import EmbeddedServerError

    settings = read_settings()
    try:
        with store_url(settings) as url:
            return asyncio.run(_work(url, settings, work))
    except (StoreError, EmbeddedServerError) as error:
        typer.echo(f"wager: {error}", err=True)
        raise typer.Exit(EXIT_STORE) from None
    except WagerError as error:
        typer.echo(f"wager: {error.field + ': ' if error.field else ''}{error.detail}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None


@contextlib.contextmanager
def store_url(settings: "Settings") -> Iterator[str]:
    """Yield the URL of the store that the settings name, which is started if it is the embedded one."""
    from service.store.embedded.embedded_access import embedded_store_url

    if settings.store_url is not None:
        yield settings.store_url
        return
    with embedded_store_url(settings.data_dir, settings.appendfsync) as url:
        yield url


async def _work(url: str, settings: "Settings", work: Callable[["KeyAdmin"], Awaitable[_T]]) -> _T:
    from service.access.key_admin import KeyAdmin
    from service.store.connections.connections import TlsFiles
    from service.store.redis.api_keys import ApiKeyTable
    from service.store.redis.redis_store import RedisStore

    tls = TlsFiles(settings.store_ca_file, settings.store_cert_file, settings.store_key_file)
    store = RedisStore(url, settings.store_timeout_seconds, tls)
    try:
        return await work(KeyAdmin(ApiKeyTable(store.command), time.time, os.urandom))
    finally:
        await store.close()

"""The commands `wager keys`. They need no API key: access to the store is enough to make keys.

They write to the store of WAGER_STORE_URL, or to the embedded one in WAGER_DATA_DIR, whether a service runs on it
or not. A running service sees a new key at once, and a revoked one within WAGER_KEY_CACHE_SECONDS.
"""

import os
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from service.commands.options import use_store

if TYPE_CHECKING:
    from service.access.key_admin import IssuedKey, KeyAdmin
    from service.access.keys import KeyRecord

app = typer.Typer(no_args_is_help=True, help="Make, list, rotate and revoke API keys.")

_T = TypeVar("_T")
_HEADS = ("id", "name", "scopes", "models", "limit", "expires")
_Id = Annotated[str, typer.Argument(help="The key's id: the 12 digits after wk_.")]


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
    """Let the administrator of the store's keys do some work; end the command where that fails."""
    from service.access.key_admin import KeyAdmin

    return use_store(lambda opened: work(KeyAdmin(opened.api_keys, time.time, os.urandom)))

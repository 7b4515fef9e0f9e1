"""The commands `wager keys`. All but `webhook-secret` need access to the store, and none needs an API key.

They use the store at WAGER_STORE_URL, or the embedded one in WAGER_DATA_DIR, whether or not a service is
running. A running service accepts a new key immediately, and still accepts a revoked key for up to
WAGER_KEY_CACHE_SECONDS.
"""

import base64
import os
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from service.commands.options import EXIT_SETTINGS, fail, use_store

if TYPE_CHECKING:
    from service.access.key_admin import IssuedKey, KeyAdmin
    from service.access.keys import KeyRecord

app = typer.Typer(no_args_is_help=True, help="Create, list, rotate and revoke API keys; create webhook secrets.")
_T = TypeVar("_T")
_HEADS = ("id", "name", "scopes", "models", "budgets", "expires")
_Id = Annotated[str, typer.Argument(help="Id of the key: the 12 hex digits after wk_.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Owner or purpose of the key.")],
    scope: Annotated[list[str], typer.Option(help="predict, feedback, read or admin. Repeat for several.")],
    models: Annotated[
        list[str] | None, typer.Option(help="One pattern of model names, such as 'shop-*'. Unset: all models.")
    ] = None,
    *,
    max_requests: Annotated[
        str | None, typer.Option(help="Maximum requests, such as 100/second. Unset: no limit.")
    ] = None,
    max_models: Annotated[
        int | None, typer.Option(help="Maximum models with names that match the pattern. Unset: no limit.")
    ] = None,
    max_open_bytes: Annotated[
        str | None,
        typer.Option(help="Maximum bytes of the open predictions of these models, such as 100MB. Unset: no limit."),
    ] = None,
    max_compute_seconds: Annotated[
        float | None,
        typer.Option(help="Maximum processor time of its requests in a minute, at least 0.001. Unset: no limit."),
    ] = None,
    expires_in_days: Annotated[float | None, typer.Option(help="Days until the key expires. Unset: never.")] = None,
) -> None:
    """Create a key and print it once."""
    pattern, *others = models or ["*"]
    if others:  # typer would silently use the last one
        fail("models: a key has one pattern; create a key for each", EXIT_SETTINGS)
    if expires_in_days is not None and not expires_in_days > 0:
        fail(f"expires-in-days: got {expires_in_days:g}; must be more than 0", EXIT_SETTINGS)
    seconds = None if expires_in_days is None else expires_in_days * 86_400
    budgets = {
        "requests": max_requests,
        "models": max_models,
        "open_bytes": max_open_bytes,
        "compute_seconds": max_compute_seconds,
    }
    _print_issued(_administer(lambda admin: admin.create(name, scope, pattern, seconds, budgets)))


@app.command("list")
def list_keys() -> None:
    """List the keys without their secrets."""
    keys = _administer(lambda admin: admin.all())
    rows = [_HEADS, *(tuple(map(_plain, _row(key_id, record))) for key_id, record in keys.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def rotate(
    key_id: _Id, overlap_hours: Annotated[float, typer.Option(min=0, help="Hours until the old key expires.")] = 24.0
) -> None:
    """Replace a key: print a new one and let the old one expire."""
    _print_issued(_administer(lambda admin: admin.rotate(key_id, overlap_hours * 3600)))


@app.command()
def revoke(key_id: _Id) -> None:
    """Revoke a key."""
    _administer(lambda admin: admin.revoke(key_id))


@app.command()
def webhook_secret(
    models: Annotated[
        str | None, typer.Option(help="Pattern of the models whose feedback it signs. Unset: all models.")
    ] = None,
) -> None:
    """Print a new secret for signing webhooks, for WAGER_WEBHOOK_SECRETS and for the sender."""
    from service.error_messages.patterns import KEY_GLOB, RULES

    if models is not None and not re.fullmatch(KEY_GLOB, models):
        fail(f"models: must be {RULES[KEY_GLOB]}", EXIT_SETTINGS)
    secret = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
    typer.echo(f"The sender signs with {secret}. Add this to WAGER_WEBHOOK_SECRETS:", err=True)
    typer.echo(secret if models is None else f"{models}={secret}")


def _print_issued(issued: "IssuedKey") -> None:
    typer.echo(f"Key {issued.id}: save it now; it cannot be shown again.", err=True)
    typer.echo(issued.text)


def _row(key_id: str, record: "KeyRecord | None") -> tuple[str, ...]:
    if record is None:
        return (key_id, "(unreadable: always refused)", "", "", "", "")
    found = record.budgets.model_dump(exclude_none=True)
    budgets = ",".join(f"{name}={value}" for name, value in found.items())
    return (key_id, record.name, ",".join(record.scopes), record.models, budgets, _moment(record.expires_at))


def _moment(seconds: float | None) -> str:
    try:
        return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):  # valid, but too late for a datetime
        return "after the year 9999"


def _plain(text: str) -> str:
    """Replace characters of a stored text that could control the terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _administer(work: Callable[["KeyAdmin"], Awaitable[_T]]) -> _T:
    from service.access.key_admin import KeyAdmin

    return use_store(lambda opened: work(KeyAdmin(opened.api_keys, time.time, os.urandom)))

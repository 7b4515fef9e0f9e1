"""Exit codes, settings, and access to the store, for all commands."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from service.settings import Settings
    from service.store.redis.open_store import OpenStore

EXIT_REFUSED = 1
EXIT_SETTINGS = 2
EXIT_APPLICATION = 3  # uvicorn's exit code if the application does not start
EXIT_ADDRESS = 4
EXIT_STORE = 5
EXIT_INTERRUPTED = 130  # the code that shells report for a process that SIGINT ended
_T = TypeVar("_T")


def fail(message: str, code: int = EXIT_REFUSED) -> NoReturn:
    """End the command with an exit code and a line on standard error."""
    typer.echo(f"wager: {message}", err=True)
    raise typer.Exit(code)


def read_settings(**options: Any) -> "Settings":
    """Read the settings. Each option that is not None overrides its setting.

    If settings are invalid, print a line about each of them and end the command with `EXIT_SETTINGS`.
    """
    from pydantic import ValidationError

    from service.error_messages.json_schemas import root_of
    from service.error_messages.validation import explain
    from service.settings import Settings

    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        for found in error.errors(include_url=False, include_input=False):  # a value may be a secret
            name = str(found["loc"][0])
            if found["type"] == "extra_forbidden":
                typer.echo(f"wager: {_unknown(name)}", err=True)
            else:
                reason = explain(found, root_of(Settings)).reason
                typer.echo(f"wager: {name} (WAGER_{name.upper()}): {reason}", err=True)
        raise typer.Exit(EXIT_SETTINGS) from None


def _unknown(name: str) -> str:
    from service.settings import Settings

    near = get_close_matches(name[len('"WAGER_') : -1].lower(), Settings.model_fields, 1)
    return f"{name}: unknown; " + (f"did you mean WAGER_{near[0].upper()}?" if near else "see `wager serve --help`")


def use_store(work: Callable[["OpenStore"], Awaitable[_T]], *, create: bool = True) -> _T:
    """Call `work` with the configured store, and return the result of `work`. The service may be running or not.

    End the command with `EXIT_STORE` if the store fails, or if it does not exist and `create` is false; end it with
    `EXIT_REFUSED` if `work` raises another `WagerError`.
    """
    from service.errors import StoreError, WagerError
    from service.store.embedded.server import LOG_FOLDER, EmbeddedServerError

    settings = read_settings()
    if not (create or settings.store_url or (settings.data_dir / LOG_FOLDER).is_dir()):
        fail(f"data_dir (WAGER_DATA_DIR): there is no store in {str(settings.data_dir)!r}", EXIT_STORE)
    try:
        with _store_url(settings) as url:
            return asyncio.run(_work(url, settings, work))
    except (StoreError, EmbeddedServerError) as error:
        fail(str(error), EXIT_STORE)
    except WagerError as error:
        fail(f"{error.field + ': ' if error.field else ''}{error.detail}", EXIT_REFUSED)


@contextlib.contextmanager
def _store_url(settings: "Settings") -> Iterator[str]:
    from service.store.embedded.server import embedded_store_url

    if settings.store_url is not None:
        yield settings.store_url
        return
    limits = settings.disk_reserve_bytes, settings.memory_limit_bytes
    with embedded_store_url(settings.data_dir, settings.appendfsync, *limits) as url:
        yield url


async def _work(url: str, settings: "Settings", work: Callable[["OpenStore"], Awaitable[_T]]) -> _T:
    from service.store.redis.open_store import open_store

    opened = open_store(url, settings.store_timeout_seconds, settings.tls_files)
    try:
        return await work(opened)
    finally:
        await opened.store.close()

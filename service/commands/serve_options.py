"""The options of `wager serve`: the settings, with their names, defaults and descriptions."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import ByteSize, SecretStr
from pydantic.fields import FieldInfo

from service.settings import Settings

_KINDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH", ByteSize: "SIZE"}
_UNITS = ("", "KiB", "MiB", "GiB")


def options() -> dict[str, FieldInfo]:
    """Return the settings that are options: all but secrets, which a list of processes would show."""
    return {name: field for name, field in Settings.model_fields.items() if _type_of(field) is not SecretStr}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a typer command whose options are the settings. It calls `command` with their texts, None if not given."""

    def run(**given: str | None) -> None:
        command(**given)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, field))
        for name, field in options().items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads these two
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.__doc__
    return run


def default_of(field: FieldInfo) -> str | None:
    """Return the default of a setting as a user writes it; None if it is unset or empty."""
    if isinstance(field.default, ByteSize):
        return _size(field.default)
    if isinstance(field.default, float):
        return f"{field.default:g}"
    return None if field.default in (None, "") else str(field.default)


def _size(number: int) -> str:
    power = max(power for power in range(len(_UNITS)) if number % 2 ** (10 * power) == 0)
    return f"{number >> 10 * power}{_UNITS[power]}"


def _option(name: str, field: FieldInfo) -> Any:
    shown = default_of(field)
    return Annotated[
        str | None,
        typer.Option(
            f"--{name.replace('_', '-')}",
            metavar=_metavar(field),
            help=f"{field.description}" + (f" Default: {shown}." if shown else ""),
            show_default=False,
        ),
    ]


def _metavar(field: FieldInfo) -> str:
    kind = _type_of(field)
    return "|".join(get_args(kind)) if get_origin(kind) is Literal else _KINDS[kind]


def _type_of(field: FieldInfo) -> Any:
    kind = field.annotation
    if get_origin(kind) in {Union, UnionType}:
        kind = get_args(kind)[0]
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind

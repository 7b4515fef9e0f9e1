"""Many items at once, each of which succeeds or fails by itself: what is raised for one stands in its place."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pydantic

from service.errors import WagerError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def attempt_each(function: Callable[[_Item], _Result], items: Sequence[_Item | Exception]) -> list[_Result | Exception]:
    """What the function, which changes nothing, returns for each item, or the refusal that it raises.

    What has failed already stays.
    """
    if not _any_failed(items):
        with contextlib.suppress(WagerError, pydantic.ValidationError):  # mostly nothing is wrong, and this is faster
            return list(map(function, items))  # type: ignore[arg-type]
    return [item if isinstance(item, Exception) else _attempt(function, item) for item in items]


def _attempt(function: Callable[[_Item], _Result], item: _Item) -> _Result | Exception:
    try:
        return function(item)
    except (WagerError, pydantic.ValidationError) as refusal:
        return refusal


async def apply_to_valid(
    function: Callable[[Sequence[_Item]], Awaitable[Sequence[_Result | Exception]]], items: Sequence[_Item | Exception]
) -> list[_Result | Exception]:
    """Hands over all that have not failed yet, in one call, and puts each result into its place."""
    if not _any_failed(items):
        return list(await function(items))  # type: ignore[arg-type]
    fit = [item for item in items if not isinstance(item, Exception)]
    results = iter(await function(fit) if fit else ())
    return [item if isinstance(item, Exception) else next(results) for item in items]


def _any_failed(items: Sequence[object]) -> bool:
    return any([isinstance(item, Exception) for item in items])  # noqa: C419  a list is faster

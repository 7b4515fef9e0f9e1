"""Batches whose items succeed or fail individually: a refused item is replaced by its exception."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeGuard, TypeVar

import pydantic

from service.errors import WagerError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_results(function: Callable[[_Item], _Result], items: Sequence[_Item | Exception]) -> list[_Result | Exception]:
    """Call a function on each item; return each result, or the `WagerError` or `ValidationError` that it raised.

    Items that are exceptions, from earlier steps, are returned unchanged. The function may run twice on an item.
    """
    if _none_failed(items):
        with contextlib.suppress(WagerError, pydantic.ValidationError):  # faster if all succeed, as usual
            return list(map(function, items))
    return [item if isinstance(item, Exception) else _attempt(function, item) for item in items]


def _attempt(function: Callable[[_Item], _Result], item: _Item) -> _Result | Exception:
    try:
        return function(item)
    except (WagerError, pydantic.ValidationError) as refusal:
        return refusal


async def apply_to_valid(
    function: Callable[[Sequence[_Item]], Awaitable[Sequence[_Result | Exception]]], items: Sequence[_Item | Exception]
) -> list[_Result | Exception]:
    """Call a function once, with all items that are not exceptions; return results and exceptions in their order."""
    if _none_failed(items):
        return list(await function(items))
    fit = [item for item in items if not isinstance(item, Exception)]
    results = iter(await function(fit) if fit else ())
    return [item if isinstance(item, Exception) else next(results) for item in items]


def indices_of(items: Sequence[object], kind: type[Exception]) -> list[int]:
    """Return the indices of exceptions of a kind; fast if there are none."""
    if not any(issubclass(each, kind) for each in set(map(type, items))):
        return []
    return [i for i, item in enumerate(items) if isinstance(item, kind)]


def _none_failed(items: Sequence[_Item | Exception]) -> TypeGuard[Sequence[_Item]]:
    return not any(issubclass(each, Exception) for each in set(map(type, items)))  # faster than a check of each item

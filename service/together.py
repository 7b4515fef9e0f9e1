"""Many items at once, each of which succeeds or fails by itself: what is raised for one stands in its place."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pydantic

from service.errors import WagerError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def attempt_each(function: Callable[[_Item], _Result], items: Sequence[_Item | Exception]) -> list[_Result | Exception]:
    """What the function returns for each item, or the refusal that it raises; what has failed already stays."""
    results: list[_Result | Exception] = []
    for item in items:
        try:
            results.append(item if isinstance(item, Exception) else function(item))
        except (WagerError, pydantic.ValidationError) as refusal:
            results.append(refusal)
    return results


async def together(
    function: Callable[[list[_Item]], Awaitable[Sequence[_Result | Exception]]], items: Sequence[_Item | Exception]
) -> list[_Result | Exception]:
    """Hands over all that have not failed yet, in one call, and puts each result into its place."""
    fit = [item for item in items if not isinstance(item, Exception)]
    results = iter(await function(fit) if fit else ())
    return [item if isinstance(item, Exception) else next(results) for item in items]

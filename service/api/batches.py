"""Many items in one request, each of which succeeds or fails by itself."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pydantic

from service.api.problems import problem_of, problem_of_validation
from service.errors import BatchTooLargeError, WagerError
from service.schemas import Problem

_Answer = TypeVar("_Answer")


def check_size(items: int, most: int, field: str) -> None:
    """Refuses a batch that is too large.

    Raises:
        BatchTooLargeError: if so.
    """
    if items > most:
        raise BatchTooLargeError(f"{items} items; one request may have {most}", field)


async def each(calls: Sequence[Coroutine[Any, Any, _Answer]]) -> list[_Answer | Problem]:
    """The answers of calls made together, in order; what is refused becomes a problem.

    The fields that such a problem names are those of the item.

    Raises:
        Exception: whatever a call raises that is no refusal.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [_answer_or_problem(result) for result in results]


def _answer_or_problem(result: _Answer | BaseException) -> _Answer | Problem:
    if isinstance(result, WagerError):
        return problem_of(result)
    if isinstance(result, pydantic.ValidationError):
        return problem_of_validation(result.errors(include_url=False, include_input=False))
    if isinstance(result, BaseException):
        raise result
    return result

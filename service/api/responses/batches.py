"""Many items in one request, each of which succeeds or fails by itself."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import pydantic

from service.api.responses.problems import problem_of, problem_of_validation
from service.errors import BatchTooLargeError, WagerError
from service.per_item import attempt_each
from service.schemas.problems import Problem
from service.strict_body import Body

_Answer = TypeVar("_Answer")
_Body = TypeVar("_Body", bound=Body)


def check_size(items: int, most: int, field: str) -> None:
    """Refuses a batch that is too large.

    Raises:
        BatchTooLargeError: if so.
    """
    if items > most:
        raise BatchTooLargeError(f"{items} items; one request may have {most}", field)


def read_each(bodies: type[_Body], items: Sequence[Any]) -> list[_Body | Exception]:
    """The bodies that items are, or why one is none. All are read in one go, which is faster, where none is wrong."""
    try:
        return list(_reader(bodies).validate_python(items))
    except pydantic.ValidationError:
        return attempt_each(bodies.model_validate, items)


@cache
def _reader(bodies: type[_Body]) -> pydantic.TypeAdapter[list[_Body]]:
    return pydantic.TypeAdapter(list[bodies])  # type: ignore[valid-type]


def answers_or_problems(results: Sequence[_Answer | Exception]) -> list[_Answer | Problem]:
    """The answers, in order, and a problem in the place of each refusal; its fields are those of the item.

    Raises:
        Exception: whatever is among the results and no refusal.
    """
    return [_problem(result) if isinstance(result, Exception) else result for result in results]


def _problem(error: Exception) -> Problem:
    if isinstance(error, WagerError):
        return problem_of(error)
    if isinstance(error, pydantic.ValidationError):
        return problem_of_validation(error.errors(include_url=False, include_input=False))
    raise error

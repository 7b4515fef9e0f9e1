"""Batches: many items in one request, each with its own success or failure."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, TypeVar

import pydantic

from service.api.responses.problems import InvalidBodyError, problem_of, problem_of_validation
from service.error_messages.json_schemas import root_of
from service.errors import BatchTooLargeError, WagerError
from service.per_item import map_results
from service.schemas.problems import Problem
from service.strict_body import Body

_MOST_FIELDS = 5
"""Maximum invalid fields to list for each item."""

_Answer = TypeVar("_Answer")
_Body = TypeVar("_Body", bound=Body)


def check_size(items: int, most: int, field: str) -> None:
    """Raise BatchTooLargeError if a batch has more than `most` items."""
    if items > most:
        raise BatchTooLargeError(f"got {items} items; a request may have at most {most}", field)


def read_together(bodies: type[_Body], items: Sequence[Any]) -> list[_Body] | None:
    """Return the bodies of all items, or None if any item is invalid. This is much faster than `read_each`."""
    try:
        return _reader(bodies).validate_python(items)
    except pydantic.ValidationError:
        return None


def read_each(bodies: type[_Body], items: Sequence[Any]) -> list[_Body | Exception]:
    """Return, for each item, its body or an `InvalidBodyError`."""
    return map_results(partial(_read, bodies), items)


def _read(bodies: type[_Body], item: object) -> _Body:
    try:
        return bodies.model_validate(item)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
        raise InvalidBodyError(
            problem_of_validation(found, root_of(bodies), most=_MOST_FIELDS, whole="the item")
        ) from None


@cache
def _reader(bodies: type[_Body]) -> pydantic.TypeAdapter[list[_Body]]:
    return pydantic.TypeAdapter(list[bodies])  # type: ignore[valid-type]


def answers_or_problems(results: Sequence[_Answer | Exception]) -> list[_Answer | Problem]:
    """Replace each WagerError among the results by its problem; raise any other exception."""
    return [_problem(result) if isinstance(result, Exception) else result for result in results]


def _problem(error: Exception) -> Problem:
    if isinstance(error, WagerError):
        return problem_of(error)
    raise error

"""One request of the client and the reading of its answer, without a network. Both clients use them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from wager_client.errors import ProblemError, UnexpectedAnswerError, problem_of, problem_of_answer
from wager_client.reading import read
from wager_client.results import Json

T = TypeVar("T")


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    content: bytes

    def json(self) -> Any:
        """Return the body.

        Raises:
            UnexpectedAnswerError: if it is not JSON.
        """
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise UnexpectedAnswerError(f"the answer is not JSON: {self.content[:100]!r}") from error

    def lines(self) -> list[Any]:
        """Return the lines of a body, each of which is JSON.

        Raises:
            UnexpectedAnswerError: if one is not JSON.
        """
        return [self._replace(content=line).json() for line in self.content.split(b"\n") if line]


@dataclass(frozen=True)
class Operation(Generic[T]):
    """One request, and how to read its answer.

    Attributes:
        repeatable: whether the request may be sent again if the service may have done it.
        quick: whether the service answers within milliseconds, so that an attempt need not have the whole time.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    quick: bool = False

    def content(self) -> bytes | None:
        """Return the body to send.

        Raises:
            ValueError: if it has NaN or infinity.
            TypeError: if it has a value that JSON cannot express.
        """
        return None if self.body is None else json.dumps(self.body, allow_nan=False).encode()

    def result(self, answer: Answer) -> T:
        """Return the result of the answer.

        Raises:
            ProblemError: if the service refused the request.
            UnexpectedAnswerError: if this client cannot read the answer.
        """
        if 200 <= answer.status < 300:
            return self.read(answer)
        raise problem_of_answer(*answer)


def repeatable(operation: Operation[T]) -> Operation[T]:
    """Return an operation that may be repeated."""
    return replace(operation, repeatable=True)


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None; sequences as lists."""
    return {name: _listed(value) for name, value in values.items() if value is not None}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, frozenset, set)) else value


def answer_as(kind: type[T]) -> Callable[[Answer], T]:
    """Return a reader of answers as one kind of result."""
    return lambda answer: read(kind, answer.json())


def list_in(body: Any, name: str) -> list[Json]:
    """Return a list of objects in the body of an answer.

    Raises:
        UnexpectedAnswerError: if it has none.
    """
    listed = body.get(name) if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UnexpectedAnswerError(f"the answer has no list {name!r} of objects")
    return listed


def problem_in(body: Json) -> ProblemError:
    """Return the problem of one item of an answer."""
    return problem_of(int(body.get("status", 0)), body)

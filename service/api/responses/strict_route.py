"""Routes that refuse a query string with parameters they do not have, and bodies that only Python's parser accepts."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from service.api.responses.bodies import check_text
from service.api.responses.problem_types import OF_QUERY
from service.api.responses.problems import MOST_FIELDS, documented
from service.wording.values import choices

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_DOCUMENTED: dict[int | str, dict[str, Any]] = {
    int(status): answer for status, answer in documented(*OF_QUERY.values()).items()
}


class _Request(Request):
    """A request whose JSON is UTF-8."""

    async def json(self) -> Any:
        """See `Request.json`. Raises HTTPException with status 400 for other text."""
        check_text(await self.body())
        return await super().json()


class StrictRoute(APIRoute):
    """A route that responds with 400 to unknown and repeated query parameters, before it reads the body.

    It reads JSON in UTF-8 only.
    """

    def __init__(self, *args: Any, responses: dict[int | str, dict[str, Any]] | None = None, **settings: Any) -> None:
        super().__init__(*args, responses=(responses or {}) | _DOCUMENTED, **settings)

    def get_route_handler(self) -> Handler:
        """See `APIRoute.get_route_handler`."""
        answer, body = super().get_route_handler(), self.body_field
        names = [field.alias for field in self.dependant.query_params]

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                check_query(request, names)
            return await answer(request if body is None else _Request(request.scope, request.receive))

        return strict


def check_query(request: Request, names: Sequence[str]) -> None:
    """Refuse unknown and repeated query parameters.

    Args:
        request: the request.
        names: parameters of its operation.

    Raises:
        RequestValidationError: if there is any. The error lists at most `MOST_FIELDS` of them.
    """
    if errors := list(islice(_errors(request, names), MOST_FIELDS)):
        raise RequestValidationError(errors)


def _errors(request: Request, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        if name not in names:
            yield {"type": "unknown_parameter", "loc": ("query", name), "msg": _unknown(name, names)}
        elif times > 1:
            yield {"type": "repeated_parameter", "loc": ("query", name), "msg": f"given {times} times; give it once"}


def _unknown(name: str, names: Sequence[str]) -> str:
    if not names:
        return "unknown query parameter; this operation has none"
    return f"unknown query parameter; {choices(name, tuple(names), 'known parameters')}"

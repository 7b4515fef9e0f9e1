"""Operations that read a JSON body and answer JSON, with status 200, without FastAPI's request handling."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from service.api.responses.bodies import LARGE, encode, read_large
from service.compute import Compute
from service.schemas.plain_bodies import MOST_PLAIN, plain_reader


class Operation:
    """One operation.

    Args:
        route: its route, which documents it.
        model: the type of its body.
        function: takes the body, and returns a dataclass or a pydantic model.
    """

    def __init__(self, route: APIRoute, model: Any, function: Callable[[Any], Awaitable[Any]]) -> None:
        self.route = route
        self._reader = TypeAdapter[Any](model)
        self._read = self._reader.validate_json
        self._read_plain = plain_reader(model)
        self._function = function

    async def read(self, body: bytes, compute: Compute) -> Any:
        """Read a body; a large one in a thread.

        Raises:
            ValidationError: if a small body is not JSON, or not valid.
            RequestValidationError: if a large one is not.
            HTTPException: with status 400, if a large body cannot be decoded, or is nested too deeply.
            InvalidInputError: if it has too many objects, lists and members, or one object too many members.
        """
        if self._read_plain is not None and len(body) < MOST_PLAIN and (plain := self._read_plain(body)) is not None:
            return plain
        return self._read(body) if len(body) < LARGE else await read_large(compute, body, self._reader)

    async def answer(self, given: Any, compute: Compute) -> bytes:
        """Return the JSON of the answer to a body. Raises the function's errors."""
        return await encode(await self._function(given), compute)

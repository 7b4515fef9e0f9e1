"""Routes that read and write JSON directly. FastAPI's request handling would take a third of the request time."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from fastapi import Request, Response
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from service.api.responses.bodies import (
    LARGE,
    answer_with,
    check_charset,
    check_text,
    compute_of,
    is_json,
    read_large,
)
from service.api.responses.operation import Operation
from service.api.responses.strict_route import Handler, StrictRoute


class DirectRoute(StrictRoute):
    """A route whose function takes only the body and path parameters, and returns a dataclass or a pydantic model.

    FastAPI's own handler reads invalid requests and reports their errors.

    Attributes:
        operation: what the gate may call in the place of the route; None if the route has path parameters, or returns
            another status or other headers.
    """

    operation: Operation | None = None

    def answer_handler(self) -> Handler:
        """See `StrictRoute.answer_handler`."""
        general, function, field = super().answer_handler(), self.endpoint, self.body_field
        paths = self.dependant.path_params
        if field is None or set(signature(function).parameters) != {field.name, *[each.name for each in paths]}:
            raise TypeError(f"the function of {self.path} must take the body, path parameters, and nothing else")
        model: Any = field.field_info.annotation
        reader, status = TypeAdapter[Any](model), self.status_code or 200
        if not paths and status == 200 and type(self) is DirectRoute:
            self.operation = Operation(self, model, function)
        read = reader.validate_json

        async def direct(request: Request) -> Response:
            content_type = _content_type(request.scope["headers"])
            if not is_json(content_type):
                return await general(request)
            check_charset(content_type)
            try:
                body = await request.body()
                given = read(body) if len(body) < LARGE else await read_large(compute_of(request), body, reader)
            except ClientDisconnect:
                return await general(request)
            except ValidationError:
                check_text(body)
                return await general(request)
            named = {each.name: each.validate(request.path_params[each.alias], loc=("path",)) for each in paths}
            if any(wrong for _, wrong in named.values()):
                return await general(request)
            answer = await function(**{name: value for name, (value, _) in named.items()}, **{field.name: given})
            content, headers = self.represent(answer)
            return await answer_with(request, content, status, headers)

        return direct

    def represent(self, answer: Any) -> tuple[Any, dict[str, str]]:
        """Return the content of the response to what the function returned, and additional headers."""
        return answer, {}


def _content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the first Content-Type of a request; empty if it has none."""
    return next((value for name, value in headers if name == b"content-type"), b"")

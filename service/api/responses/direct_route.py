"""Routes that read and write JSON directly. FastAPI's request handling would take a third of the request time."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from fastapi import Request, Response
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from service.api.responses.bodies import LARGE, answer_with, check_charset, check_utf8, is_json, read_large
from service.api.responses.strict_route import Handler, StrictRoute


class DirectRoute(StrictRoute):
    """A route whose function takes only the body and returns a dataclass or a pydantic model.

    FastAPI's own handler reads invalid requests and reports their errors.
    """

    def answer_handler(self) -> Handler:
        """See `StrictRoute.answer_handler`."""
        general, function, field = super().answer_handler(), self.endpoint, self.body_field
        if field is None or len(signature(function).parameters) > 1:
            raise TypeError(f"the function of {self.path} must take the body and nothing else")
        model: Any = field.field_info.annotation
        reader, status = TypeAdapter[Any](model), self.status_code or 200
        read = reader.validate_json

        async def direct(request: Request) -> Response:
            content_type = _content_type(request.scope["headers"])
            if not is_json(content_type):
                return await general(request)
            check_charset(content_type)
            try:
                body = await request.body()
                given = read(body) if len(body) < LARGE else await read_large(request, body, reader)
            except ClientDisconnect:
                return await general(request)
            except ValidationError:
                check_utf8(body)
                return await general(request)
            answer = await function(given)
            return await answer_with(request, answer, status, self.answer_headers(answer))

        return direct

    def answer_headers(self, answer: Any) -> dict[str, str]:  # noqa: ARG002  for subclasses
        """Return additional headers for the response with this content."""
        return {}


def _content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the first Content-Type of a request; empty if it has none."""
    return next((value for name, value in headers if name == b"content-type"), b"")

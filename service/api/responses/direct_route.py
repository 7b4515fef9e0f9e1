"""Routes that read and answer JSON directly, bypassing FastAPI's request handling, a third of the request time."""

from collections.abc import Callable, Coroutine, Iterable
from inspect import signature
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from service.api.responses.bodies import LARGE, answer_with, is_json, read_large


class DirectRoute(APIRoute):
    """A route whose function takes only the body and returns a dataclass or a pydantic model.

    FastAPI's own handler reads wrong requests and reports their errors.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute.get_route_handler`."""
        general, function, field = super().get_route_handler(), self.endpoint, self.body_field
        if field is None or len(signature(function).parameters) > 1:
            raise TypeError(f"the function of {self.path} must take the body and nothing else")
        model: Any = field.field_info.annotation
        reader, status = TypeAdapter[Any](model), self.status_code or 200
        read = reader.validate_json

        async def direct(request: Request) -> Response:
            if not is_json(_content_type(request.scope["headers"])):
                return await general(request)
            try:
                body = await request.body()
                given = read(body) if len(body) < LARGE else await read_large(request, body, reader)
            except (ValidationError, ClientDisconnect):
                return await general(request)
            answer = await function(given)
            return await answer_with(request, answer, status, self.answer_headers(answer))

        return direct

    def answer_headers(self, answer: Any) -> dict[str, str]:  # noqa: ARG002  for subclasses
        """Return headers that this answer needs in addition to the usual ones."""
        return {}


def _content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the first Content-Type of a request."""
    return next((value for name, value in headers if name == b"content-type"), None)

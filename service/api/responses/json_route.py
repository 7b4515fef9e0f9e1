"""Routes that read and write JSON themselves. FastAPI's request handling would take a third of the request time."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter
from starlette.types import Receive, Scope, Send

from service.api.responses.bodies import check_charset, compute_of, encode, is_json, read_json, read_whole, send_body
from service.api.responses.problems import wrong_media_type
from service.api.responses.strict_route import StrictRoute, check_query
from service.schemas.plain_bodies import MOST_PLAIN, plain_reader


class JsonRoute(StrictRoute):
    """A route whose function takes only the body and path parameters, and returns a dataclass or a pydantic model.

    FastAPI matches and documents it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings | {"generate_unique_id_function": lambda route: route.name})
        field, self._paths = self.body_field, self.dependant.path_params
        if field is None or set(signature(self.endpoint).parameters) != {field.name, *[p.name for p in self._paths]}:
            raise TypeError(f"the function of {self.path} must take the body, path parameters, and nothing else")
        model: Any = field.field_info.annotation
        self._body_name = field.name
        self._reader, self._read_plain = TypeAdapter[Any](model), plain_reader(model)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `Route.handle`."""
        if scope["method"] != "POST":
            return await super().handle(scope, receive, send)  # refuses it
        content, headers = self.represent(await self.endpoint(**await self._read(scope, receive)))
        body = await encode(content, compute_of(scope))
        own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        own += [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status_code or 200, "headers": own})
        return await send_body(send, body)

    def represent(self, answer: Any) -> tuple[Any, dict[str, str]]:
        """Return the content of the response to what the function returned, and additional headers."""
        return answer, {}

    async def _read(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        """Return the arguments of the function.

        Raises:
            RequestValidationError: if the query, a path parameter or the body is not valid, or the body is not JSON.
            HTTPException: if the body has another type, cannot be decoded, or does not arrive.
            InvalidInputError: if the body has too many parts.
        """
        if scope["query_string"]:
            check_query(Request(scope), ())
        content_type = _content_type(scope["headers"])
        if of_json := is_json(content_type):
            check_charset(content_type)
        body = await read_whole(receive)
        if body and not of_json:
            raise wrong_media_type(Request(scope), "JSON with Content-Type application/json")
        given, wrong = self._read_path(scope) if self._paths else ({}, [])
        try:
            given[self._body_name] = self._plain(body) or await read_json(compute_of(scope), body, self._reader)
        except RequestValidationError as error:
            if error.errors()[0]["type"] == "json_invalid":
                raise
            wrong += error.errors()
        if wrong:
            raise RequestValidationError(wrong)
        return given

    def _plain(self, body: bytes) -> Any:
        """Return a body that msgspec can read, or None."""
        return None if self._read_plain is None or len(body) >= MOST_PLAIN else self._read_plain(body)

    def _read_path(self, scope: Scope) -> tuple[dict[str, Any], list[Any]]:
        """Return the parameters in the path, and their errors."""
        given: dict[str, Any] = {}
        wrong: list[Any] = []
        for each in self._paths:
            given[each.name], errors = each.validate(scope["path_params"][each.alias], loc=("path", each.alias))
            wrong += errors or []
        return given, wrong


def _content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the first Content-Type of a request; empty if it has none."""
    for name, value in headers:
        if name == b"content-type":
            return value
    return b""

"""Route classes: strict FastAPI routes, and routes that read and write JSON themselves."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from inspect import signature
from itertools import islice
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.types import Receive, Scope, Send

from service.api.responses.bodies import (
    check_charset,
    check_text,
    compute_of,
    encode,
    is_json,
    read_json,
    read_whole,
    send_body,
)
from service.api.responses.problem_types import OF_QUERY
from service.api.responses.problems import MOST_FIELDS, documented, wrong_media_type
from service.error_messages.values import choices
from service.json_values import JsonObject
from service.schemas.fast_decoders import MOST_PLAIN, plain_reader

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_DOCUMENTED: dict[int | str, JsonObject] = {
    int(status): answer for status, answer in documented(*OF_QUERY.values()).items()
}


class _Request(Request):
    """A request that accepts JSON in UTF-8 only."""

    async def json(self) -> Any:
        check_text(await self.body())
        return await super().json()


def name_of(route: APIRoute) -> str:
    """Return the operation id of a route in openapi.json: the name of its function."""
    return route.name


class StrictRoute(APIRoute):
    """A route that refuses JSON in encodings other than UTF-8, and unknown and repeated query parameters."""

    def __init__(self, *args: Any, responses: dict[int | str, JsonObject] | None = None, **settings: Any) -> None:
        documented = (responses or {}) | _DOCUMENTED
        super().__init__(*args, **settings | {"responses": documented, "generate_unique_id_function": name_of})

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler. The query is checked before it runs; the body's encoding, when it parses JSON."""
        answer, body = super().get_route_handler(), self.body_field
        names = [field.alias for field in self.dependant.query_params]

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                check_query(request, names)
            return await answer(request if body is None else _Request(request.scope, request.receive))

        return strict


def check_query(request: Request, names: Sequence[str]) -> None:
    """Raise RequestValidationError if a query parameter is unknown or repeated."""
    if errors := list(islice(_errors(request, names), MOST_FIELDS)):
        raise RequestValidationError(errors)


def _errors(request: Request, names: Sequence[str]) -> Iterator[JsonObject]:
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        if name not in names:
            known = choices(name, tuple(names), "known parameters") if names else "this operation has none"
            yield {"type": "unknown_parameter", "loc": ("query", name), "msg": f"unknown query parameter; {known}"}
        elif times > 1:
            yield {"type": "repeated_parameter", "loc": ("query", name), "msg": f"given {times} times; give it once"}


class JsonRoute(StrictRoute):
    """A fast route whose function takes only the body and path parameters; `represent` converts the function's answer.

    FastAPI matches and documents the route; this class reads the request and writes the response.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        field, self._paths = self.body_field, self.dependant.path_params
        if field is None or set(signature(self.endpoint).parameters) != {field.name, *[p.name for p in self._paths]}:
            raise TypeError(f"the function of {self.path} must take the body, path parameters, and nothing else")
        model: Any = field.field_info.annotation
        self._body_name = field.name
        self._reader, self._read_plain = TypeAdapter[Any](model), plain_reader(model)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, call the function, and send its answer as JSON."""
        if scope["method"] != "POST":
            return await super().handle(scope, receive, send)  # FastAPI refuses the method
        answer = await self.endpoint(**await self._read(scope, receive))
        content, headers = self.represent(answer, scope.get("root_path", ""))
        body = await encode(content, compute_of(scope))
        own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        own += [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        return await self.send(scope, send, own, body)

    async def send(self, scope: Scope, send: Send, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a response to the request of a scope."""
        await send({"type": "http.response.start", "status": self.status_code or 200, "headers": headers})
        await send_body(send, body)

    def represent(self, answer: Any, root: str) -> tuple[Any, dict[str, str]]:
        """Return the content and the additional headers of a response, given the function's answer.

        `root` is the prefix of every path, such as "/v1"; empty if there is none.
        """
        return answer, {}

    async def _read(self, scope: Scope, receive: Receive) -> JsonObject:
        """Return the arguments of the function."""
        if scope["query_string"]:
            check_query(Request(scope), ())
        content_type: bytes = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        if of_json := is_json(content_type):
            check_charset(content_type)
        body = await read_whole(receive)
        if body and not of_json:
            raise wrong_media_type(Request(scope), "JSON with Content-Type application/json")
        given, wrong = self._read_path(scope) if self._paths else ({}, [])
        try:
            plain = self._read_plain(body) if self._read_plain is not None and len(body) < MOST_PLAIN else None
            given[self._body_name] = plain or await read_json(compute_of(scope), body, self._reader)
        except RequestValidationError as error:
            if error.errors()[0]["type"] == "json_invalid":
                raise
            wrong += error.errors()
        if wrong:
            raise RequestValidationError(wrong)
        return given

    def _read_path(self, scope: Scope) -> tuple[JsonObject, list[Any]]:
        given: JsonObject = {}
        wrong: list[Any] = []
        for each in self._paths:
            given[each.name], errors = each.validate(scope["path_params"][each.alias], loc=("path", each.alias))
            wrong += errors or []
        return given, wrong

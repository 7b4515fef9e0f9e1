"""What every request passes, in this order; then an operation, or FastAPI, answers it.

1. The observer gives the request an id, and counts and logs it at the end.
2. CORS answers a preflight request, and lets pages of listed origins read the response.
3. Without API keys, the page of another site is refused.
4. The request takes a place among those in flight.
5. Its API key must allow it.
6. Its body must not be too large or too slow.
7. A usual request to `/predict`, `/feedback`, `/activate` or their batches goes to its operation. All others go to
   FastAPI: other routes, other media types, query strings, and bodies that the operation cannot read.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.access_control import AccessControl
from service.api.middleware.access import Access, Need, need_of
from service.api.middleware.body_limit import BodyLimit, MostBytes, Pace, read_whole
from service.api.middleware.cors import Cors
from service.api.middleware.exchange import Exchange
from service.api.middleware.in_flight import LOST, InFlight
from service.api.middleware.key_syntax import KeySyntax
from service.api.middleware.observer import Observer
from service.api.middleware.own_pages import OwnPages
from service.api.responses.bodies import is_plain_json
from service.api.responses.operation import Operation
from service.api.responses.problems import answer_to, answer_to_http, internal_error, report
from service.compute import Compute
from service.errors import AccessError, ModelNotFoundError, OverloadedError, StoppingError, StoreError, WagerError
from service.input_errors import InvalidInputError
from service.observability.telemetry import Telemetry

_log = logging.getLogger(__name__)

_READ_NO_BODY = frozenset({"GET", "DELETE"})
"""Methods whose operations read no body. The gate waits for one; other operations read theirs before they begin."""


class RequestLimits(NamedTuple):
    """Limits on the size, the pace and the number of requests."""

    batch_items: int
    body_bytes: int
    import_bytes: int
    pace: Pace
    in_flight: int


class Guard(NamedTuple):
    """The checks that every request passes before it is answered."""

    telemetry: Telemetry
    limits: RequestLimits
    access: AccessControl | None  # None if no API keys are required
    origins: Sequence[str] = ()  # whose pages may call the API from a browser
    hosts: Sequence[str] = ()  # names of the service, if no API keys are required


class Gate:
    """ASGI application in front of another one.

    Args:
        app: FastAPI's part of the application.
        operations: the operations that need no other route handling, by path.
        guard: the checks.
        compute: threads for large bodies.
        now: returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        app: ASGIApp,
        operations: Mapping[str, Operation],
        guard: Guard,
        compute: Compute,
        now: Callable[[], float],
    ) -> None:
        limits = guard.limits
        self._app = app
        self._operations = operations
        self._compute = compute
        self._observer = Observer(guard.telemetry, now)
        self._cors = Cors(guard.origins) if guard.origins else None
        self._own_pages = OwnPages(guard.hosts, guard.origins) if guard.access is None else None
        self._in_flight = InFlight(limits.in_flight)
        self._access = KeySyntax() if guard.access is None else Access(guard.access)
        self._bodies = BodyLimit(MostBytes(limits.body_bytes, limits.import_bytes), limits.pace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, count it and log it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["method"] == "HEAD":  # like GET; the server drops the body (RFC 9110, section 9.3.2)
            scope = {**scope, "method": "GET"}
        exchange = self._observer.begin(scope, receive, send)
        try:
            if self._cors is not None and self._cors.applies_to(exchange):
                await self._cors.answer(exchange, self._limited)
            else:
                await self._limited(exchange)
        except asyncio.CancelledError:  # the server is stopping and no longer waits
            if exchange.status:
                raise
            await exchange.respond(answer_to(StoppingError("this worker stopped before it could answer")))
        except Exception as error:
            if not exchange.status:  # the response had not begun
                _log.error("unexpected error", exc_info=error)
                await exchange.respond(internal_error())
            exchange.status = 500
            raise
        finally:
            self._observer.end(exchange)

    async def _limited(self, exchange: Exchange) -> None:
        """Answer a request if no page of another site sent it, and a place is free."""
        scope = exchange.scope
        try:
            if self._own_pages is not None:
                self._own_pages.check(exchange)
        except AccessError as error:
            return await exchange.respond(answer_to(error))
        need = need_of(scope["method"], scope["path"])
        places = self._in_flight.places(scope["path"], open_path=need is None)
        if places is None:
            return await self._admitted(exchange, need)
        if not places.have_room():
            busy = OverloadedError(f"this worker has reached its limit of {places.most:,} such requests in flight")
            return await exchange.respond(answer_to(busy))
        arrival = exchange.arrival = None if exchange.body_has_arrived else places.expect()
        places.taken += 1
        try:
            await self._admitted(exchange, need)
        except asyncio.CancelledError:
            if arrival is None or not arrival.lost_place:
                raise
            await exchange.respond(answer_to_http(LOST))
        finally:
            places.taken -= 1
            if arrival is not None:
                arrival.end()

    async def _admitted(self, exchange: Exchange, need: Need | None) -> None:
        """Answer a request if its API key and the size of its body allow it."""
        try:
            if need is not None:
                await self._access.admit(exchange, need)
        except (AccessError, ModelNotFoundError, StoreError) as error:
            return await exchange.respond(answer_to(error))
        refusal = self._bodies.refusal(exchange)
        if refusal is not None:
            return await exchange.respond(refusal)
        operation = self._operations.get(exchange.scope["path"])
        if operation is None or not _is_usual(exchange):
            self._bodies.limit(exchange)
            return await self._route(exchange)
        if exchange.arrival is not None:
            self._bodies.limit(exchange)
        return await self._operate(operation, exchange)

    async def _route(self, exchange: Exchange) -> None:
        """Let FastAPI answer a request, after its body has arrived: a request that took effect keeps its place."""
        receive = exchange.receive
        if exchange.arrival is not None and exchange.scope["method"] in _READ_NO_BODY:
            try:
                receive = _replay(await read_whole(exchange), receive)
            except HTTPException as error:
                return await exchange.respond(answer_to_http(error))
        return await self._app(exchange.scope, receive, exchange.send)

    async def _operate(self, operation: Operation, exchange: Exchange) -> None:
        """Answer a usual request to an operation; FastAPI reports the errors of a body that cannot be read."""
        exchange.scope["route"] = operation.route
        try:
            body = await read_whole(exchange)
        except HTTPException as error:
            return await exchange.respond(answer_to_http(error))
        given = None
        with contextlib.suppress(ValidationError, RequestValidationError, HTTPException, InvalidInputError):
            given = await operation.read(body, self._compute)
        if given is None:  # not in a handler, whose error would form a cycle with the one that FastAPI raises
            return await self._app(exchange.scope, _replay(body, exchange.receive), exchange.send)
        try:
            content = await operation.answer(given, self._compute)
        except WagerError as error:
            return await exchange.respond(report(error))
        return await exchange.respond_json(content)


def _is_usual(exchange: Exchange) -> bool:
    """Check whether a request to the path of an operation needs nothing of FastAPI."""
    scope = exchange.scope
    return (
        scope["method"] == "POST"
        and not scope["query_string"]
        and exchange.has_length
        and not exchange.repeats_headers
        and is_plain_json(exchange.headers.get(b"content-type", b""))
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that returns a body that was received, then what follows it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return left.pop() if left else await receive()

    return replayed

"""The middleware of the service, outermost first.

1. The observer assigns a request id, completes the headers of the response, and counts and logs the request at the end.
2. CORS, if any origins are listed, answers their preflight requests and allows their pages to read responses.
3. Admission refuses, in this order: if no API keys are required, requests from other sites' pages; requests above the
   limit in flight; requests without a sufficient key, or above its budgets; and requests with a body that is too large
   or too slow.

Middleware that is added to the application later encloses all of them.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi.middleware import Middleware
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import request_context
from service.access.key_admin import AccessControl
from service.api.middleware.access import Header, admit, need_of
from service.api.middleware.body_limit import BodyLimit, Pace
from service.api.middleware.in_flight import LOST, InFlight
from service.api.middleware.metering import metered
from service.api.middleware.observer import Observer
from service.api.middleware.origins import Cors, OwnPages
from service.api.responses.problems import answer_to, answer_to_http, internal_error
from service.errors import AccessError, ModelNotFoundError, OverloadedError, StoppingError, StoreError
from service.observability.telemetry import Telemetry


class Admission:
    """Middleware that refuses requests, and answers those that fail unexpectedly or that a stopping worker abandons."""

    def __init__(
        self,
        app: ASGIApp,
        own_pages: OwnPages | None,
        in_flight: InFlight,
        access: AccessControl | None,
        bodies: BodyLimit,
    ) -> None:
        self._app = app
        self._own_pages, self._in_flight, self._access, self._bodies = own_pages, in_flight, access, bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            await self._admit(scope, receive, send)
        except asyncio.CancelledError:  # the server is stopping and no longer waits
            if _has_begun():
                raise
            stopping = answer_to(StoppingError("this worker stopped before it could answer"))
            await stopping(scope, receive, send)
        except Exception:  # the application's handler of unexpected errors logs it
            if not _has_begun():
                await internal_error()(scope, receive, send)
            raise
        return None

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        place, limit, refusal = None, list[Header](), None
        if scope["path"].startswith("/v1/"):
            scope["root_path"] = scope.get("root_path", "") + "/v1"  # routes match the rest of the path
        try:
            try:
                if self._own_pages is not None:
                    self._own_pages.check(scope["method"], scope["headers"])
                need = need_of(scope["method"], scope["path"])
                place = self._in_flight.take(scope["path"], open_path=need is None)
                if need is not None:
                    await admit(self._access, scope, need, place, limit)
                receive = await self._bodies.limit(scope, receive, place)
            except (AccessError, ModelNotFoundError, OverloadedError, StoreError) as error:
                refusal = answer_to(error)
            except HTTPException as error:
                refusal = answer_to_http(error)
            answer = self._app if refusal is None else refusal
            answering = answer(scope, receive, _with_headers(send, limit) if limit else send)
            charge = _charge() if refusal is None else None  # refusals must not use up the budget
            await (answering if charge is None else metered(answering, charge))
        except asyncio.CancelledError:
            if place is None or not place.is_lost:
                raise
            await answer_to_http(LOST)(scope, receive, send)
        finally:
            if place is not None:
                place.free()


def _has_begun() -> bool:
    notes = request_context.current.get()
    return notes is not None and bool(notes.status)


def _charge() -> Callable[[float], None] | None:
    notes = request_context.current.get()
    return None if notes is None else notes.charge


def _with_headers(send: Send, more: Sequence[Header]) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sent


class RequestLimits(NamedTuple):
    """Limits on the size, the pace and the number of requests."""

    batch_items: int
    body_bytes: int
    import_bytes: int  # limit for a model's file
    pace: Pace
    in_flight: int  # in each worker


class RequestPolicy(NamedTuple):
    """What the middleware enforces, and where it records requests."""

    telemetry: Telemetry
    limits: RequestLimits
    access: AccessControl | None  # None if no API keys are required
    origins: Sequence[str] = ()  # origins whose pages may call the API from a browser
    hosts: Sequence[str] = ()  # host names of the service; checked only if no API keys are required


def pipeline(policy: RequestPolicy, now: Callable[[], float]) -> list[Middleware]:
    """Return the middleware of the service, outermost first. `now` is monotonic, in seconds."""
    limits, origins = policy.limits, policy.origins
    return [
        Middleware(Observer, policy.telemetry, now),
        *([Middleware(Cors, origins)] if origins else []),
        Middleware(
            Admission,
            OwnPages(policy.hosts, origins) if policy.access is None else None,
            InFlight(limits.in_flight),
            policy.access,
            BodyLimit(limits.body_bytes, limits.import_bytes, limits.pace),
        ),
    ]

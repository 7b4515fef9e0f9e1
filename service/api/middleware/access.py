"""Who may ask what: API keys at the door, before a body is read.

What a request needs follows from its method and path alone, and what is named nowhere needs `admin`, so a new
route is closed until it is opened here. Models named in a path are judged here as well; those named in a body by
the handlers, through `check_model`.
"""

from contextvars import ContextVar
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import request_context
from service.access import keys
from service.access.access_control import AccessControl
from service.access.keys import Caller, Names
from service.api.responses.problems import answer_to
from service.errors import (
    AccessError,
    ModelNotFoundError,
    RateLimitedError,
    StoreError,
    UnauthenticatedError,
    WrongKeysError,
)
from service.store.access_tables import RequestCount


class Need(NamedTuple):
    """What a request needs."""

    scope: keys.Scope
    every_model: bool = True  # a key for some models only is refused


_SCOPES: dict[tuple[str, str], Need] = {
    ("POST", "/predict"): Need("predict", every_model=False),
    ("POST", "/predict/batch"): Need("predict", every_model=False),
    ("POST", "/feedback"): Need("feedback", every_model=False),
    ("POST", "/feedback/batch"): Need("feedback", every_model=False),
    ("GET", "/models"): Need("read", every_model=False),
    ("POST", "/models"): Need("admin", every_model=False),
    ("GET", "/learners"): Need("read", every_model=False),
}
_READ, _ADMIN = Need("read"), Need("admin")
_OPEN = frozenset({"/livez", "/readyz", "/openapi.json", "/docs", "/webhooks/feedback"})
"""For everybody: health, the description of the API, and webhooks, whose signature is their key."""

_HOW = "send an API key, as `Authorization: Bearer wk_...`"
_EVERY_NAME = Names("*")
_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)  # None where no keys are required


def need_of(method: str, path: str) -> Need | None:
    """What a request needs; None where everybody may. A model that the path names is another matter."""
    path = path.removeprefix("/v1")
    if path in _OPEN or path.startswith("/docs/"):
        return None
    if path.startswith("/models/"):
        return Need("read" if method == "GET" else "admin", every_model=False)
    return _SCOPES.get((method, path)) or (_READ if method == "GET" else _ADMIN)


def check_model(name: str, field: str) -> None:
    """Lets a request pass that may know of the model.

    Raises:
        ModelNotFoundError: if its key is for others; the same whether there is such a model or not.
    """
    caller = _caller.get()
    if caller is not None:
        caller.check_model(name, field)


def check_new_model(name: str) -> None:
    """Lets a request pass that may make a model of that name.

    Raises:
        ForbiddenError: if its key is for other names.
    """
    caller = _caller.get()
    if caller is not None:
        caller.check_new_model(name)


def own_names() -> Names:
    """The names of models that the request may know of."""
    caller = _caller.get()
    return _EVERY_NAME if caller is None else caller.names


class Access:
    """ASGI middleware: lets those requests through whose key allows them.

    Args:
        app: what they are let through to.
        control: judges the keys.
    """

    def __init__(self, app: ASGIApp, control: AccessControl) -> None:
        self._app = app
        self._gatekeeper, self._counter, self._wrong_keys = control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401, 403, 404 or 429."""
        need = need_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if need is None:
            return await self._app(scope, receive, send)
        try:
            caller = await self._identify(_required_key(scope), scope)
            if caller.limit is not None:
                counted = await self._counter.count(caller.key_id, caller.limit)
                send = _with_limit_headers(send, counted)
                _check_count(counted)
            request_context.note_key(caller.key_id)
            _check(caller, need, scope["path"])
        except (AccessError, ModelNotFoundError, StoreError) as error:
            return await answer_to(error)(scope, receive, send)
        token = _caller.set(caller)
        try:
            return await self._app(scope, receive, send)
        finally:
            _caller.reset(token)

    async def _identify(self, key: str, scope: Scope) -> Caller:
        try:
            return await self._gatekeeper.identify(key)
        except UnauthenticatedError:
            client = scope.get("client")
            seconds = self._wrong_keys.count(client[0] if client else "")
            if seconds is None:
                raise
            detail = "this address has sent too many wrong API keys; a right one is still let in"
            raise WrongKeysError(detail, retry_after=seconds) from None


def presented_key(scope: Scope) -> str | None:
    """Return the key of a request, from `Authorization: Bearer` or `X-API-Key`; None without these headers.

    `Authorization` with another scheme is not a key: a proxy may require it, and pass it on.

    Raises:
        UnauthenticatedError: if the headers have different keys, or `Authorization` has no scheme.
    """
    keys = set()
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            keys.add(value)
        elif name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if not credentials:
                raise UnauthenticatedError(_HOW)
            if scheme.lower() == b"bearer":
                keys.add(credentials.strip())
    if len(keys) > 1:
        raise UnauthenticatedError("the headers have different API keys; send one")
    return str(keys.pop(), "latin-1") if keys else None


def _required_key(scope: Scope) -> str:
    key = presented_key(scope)
    if key is None:
        raise UnauthenticatedError(_HOW)
    return key


def _check(caller: Caller, need: Need, path: str) -> None:
    caller.check_scope(need.scope)
    if need.every_model:
        caller.check_everything()
    path = path.removeprefix("/v1")
    if path.startswith("/models/"):
        caller.check_model(path.split("/", 3)[2], "name")


def _check_count(counted: RequestCount) -> None:
    if counted.left < 0:
        detail = f"the API key may make {counted.most} requests in {counted.window} s"
        raise RateLimitedError(detail, retry_after=counted.resets_in or counted.window)


def _with_limit_headers(send: Send, counted: RequestCount) -> Send:
    """Adds where the key stands, as draft-ietf-httpapi-ratelimit-headers-10 writes it."""
    reset = "" if counted.resets_in is None else f";t={counted.resets_in}"
    headers = [
        (b"ratelimit-policy", f'"key";q={counted.most};w={counted.window}'.encode()),
        (b"ratelimit", f'"key";r={max(counted.left, 0)}{reset}'.encode()),
    ]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return sent

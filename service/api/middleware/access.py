"""Checks API keys before a body is read.

The method and the path determine which scope a request needs. New routes are restricted by default: except for the
routes in `_SCOPES` and the open paths, GET needs `read`, other methods need `admin`, and the key must allow all models.
Under /models/, however, the key need only allow the model in the path, and `POST /models/{name}/explain` needs `read`.
`GET /predictions/{prediction_id}` needs `read`, too, and evaluations of flags need `predict`. The model in a path under
/models/ is checked here; handlers check a model in a body, in a prediction's id or in a flag's key, with `check_model`
or `check_new_model`.
"""

import logging
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

from starlette.types import Scope

from service import errors, request_context
from service.access import keys
from service.access.key_admin import AccessControl
from service.access.keys import NO_BUDGETS, Caller, Names
from service.access.usage import UsageMeter
from service.api.middleware.in_flight import Place
from service.api.responses.evaluation_failures import is_evaluation
from service.error_messages.values import quoted
from service.store.access_tables import RequestCount
from service.store.values import NameQuota

_log = logging.getLogger(__name__)


Header = tuple[bytes, bytes]


class Need(NamedTuple):
    """The scope that a request needs, None if any will do; and whether its key must allow all models."""

    scope: keys.Scope | None
    every_model: bool = True


_SCOPES: dict[tuple[str, str], Need] = {
    ("POST", "/predict"): Need("predict", every_model=False),
    ("POST", "/predict/batch"): Need("predict", every_model=False),
    ("POST", "/feedback"): Need("feedback", every_model=False),
    ("POST", "/feedback/batch"): Need("feedback", every_model=False),
    ("POST", "/activate"): Need("feedback", every_model=False),
    ("GET", "/models"): Need("read", every_model=False),
    ("POST", "/models"): Need("admin", every_model=False),
    ("GET", "/statistics"): Need("read", every_model=False),
    ("GET", "/learners"): Need("read", every_model=False),
    ("GET", "/key"): Need(None, every_model=False),
}
_READ, _ADMIN = Need("read"), Need("admin")
_OPEN = frozenset({"/", "/livez", "/readyz", "/openapi.json", "/docs", "/webhooks/feedback"})
"""Paths that need no key: pages, which contain no data; health checks; openapi.json; and webhooks, which are signed."""
_OPEN_FOLDERS = ("/docs/", "/dashboard/")  # files of the pages, which need no key

_HOW = "send an API key, as `Authorization: Bearer wk_...`"
_EVERY_NAME = Names("*")
_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)  # None if no keys are required
_meter: ContextVar[UsageMeter | None] = ContextVar("meter", default=None)  # None if the key has no budgets


def need_of(method: str, path: str) -> Need | None:
    """Return what a request needs; None for an open path. `_check` also checks that the key allows the path's model."""
    if (listed := _SCOPES.get((method, path))) is not None:
        return listed
    path = path.removeprefix("/v1")
    if path in _OPEN or path.startswith(_OPEN_FOLDERS):
        return None
    if is_evaluation(path) and method == "POST":
        return Need("predict", every_model=False)
    if path.startswith("/predictions/") and method == "GET":
        return Need("read", every_model=False)
    if path.startswith("/models/"):
        reads = method == "GET" or (method == "POST" and path.split("/")[3:] == ["explain"])
        return Need("read" if reads else "admin", every_model=False)
    return _SCOPES.get((method, path)) or (_READ if method == "GET" else _ADMIN)


def check_model(name: str, field: str) -> None:
    """Raise ModelNotFoundError if the request's key does not allow the model, whether or not the model exists."""
    if name not in own_names():
        raise errors.ModelNotFoundError(f"there is no model {quoted(name)}", field)


def check_room() -> None:
    """Raise OpenBytesSpentError if the request's key may make no further predictions. Call it after the body."""
    if (meter := _meter.get()) is not None and (caller := _caller.get()) is not None:
        meter.check_open_bytes(caller)


def check_new_model(name: str) -> None:
    """Raise ForbiddenError if the request's key does not allow a new model with this name."""
    if name not in (names := own_names()):
        raise errors.ForbiddenError(
            f"got {quoted(name)}; the API key allows only names that match {quoted(names.glob)}", "name"
        )


def own_quota() -> NameQuota | None:
    """Return how many models the request's key may have; None for no limit."""
    caller = _caller.get()
    if caller is None or caller.budgets.models is None:
        return None
    return NameQuota(caller.names.glob, caller.names.prefix, caller.budgets.models)


def caller_id() -> str | None:
    """Return the id of the request's key; None if no keys are required."""
    caller = _caller.get()
    return None if caller is None else caller.key_id


def current_caller() -> Caller | None:
    """Return the caller of the request; None if no keys are required."""
    return _caller.get()


def own_names() -> Names:
    """Return the names of the models that the request's key allows: all, if no keys are required."""
    caller = _caller.get()
    return _EVERY_NAME if caller is None else caller.names


async def admit(
    control: AccessControl | None, scope: Scope, need: Need, place: Place | None, limit: list[Header]
) -> None:
    """Check the key of a request, note its caller for the handlers, and append the rate-limit headers to `limit`.

    If no keys are required (`control` is None), refuse only malformed keys: clients that send one are misconfigured.
    Raises AccessError, StoreError, OverloadedError if the key occupies too many places or, if the key does not allow
    the path's model, ModelNotFoundError.
    """
    key = presented_key(scope)
    if control is None:
        if key is not None and not keys.is_well_formed(key):
            raise errors.UnauthenticatedError("not an API key; a key reads wk_<12 hex digits>_<64 hex digits>")
        return
    try:
        if place is not None and key is not None:
            place.claim(control.gatekeeper.known_id(key))  # while the key is looked up
        caller = await _identify(control, key, scope)
        _note(caller, control.meter)
        if place is not None:
            place.claim(caller.key_id)
        if caller.budgets.requests is not None:
            _check_count(await control.counter.count(caller.key_id, caller.budgets.requests), limit)
    except errors.StoreCorruptError as error:
        _log.error("the API keys in the store cannot be read: %s", error.detail)
        detail = "the API keys cannot be read; the log of the service has the cause"
        raise errors.StoreUnavailableError(detail) from None
    _check(caller, need, scope["path"])
    if caller.budgets != NO_BUDGETS:
        _meter.set(control.meter)
        await control.meter.check(caller, need.scope)


def _note(caller: Caller, meter: UsageMeter) -> None:
    """Note the caller for the handlers, the log and, if its processor time is limited, those that spend it."""
    _caller.set(caller)
    limited = caller.budgets.compute_seconds is not None
    request_context.note_key(caller.key_id, partial(meter.charge, caller) if limited else None)


async def _identify(control: AccessControl, key: str | None, scope: Scope) -> Caller:
    if key is None:
        raise errors.UnauthenticatedError(_HOW)
    try:
        return await control.gatekeeper.identify(key)
    except errors.UnauthenticatedError:
        client = scope.get("client")
        seconds = control.wrong_keys.count(client[0] if client else "")
        if seconds is None:
            raise
        detail = "this address has sent too many wrong API keys; valid keys still work"
        raise errors.WrongKeysError(detail, retry_after=seconds) from None


def presented_key(scope: Scope) -> str | None:
    """Return the key in `Authorization: Bearer` or `X-API-Key`; None if absent.

    Other schemes are ignored: they may be meant for a proxy. Raises UnauthenticatedError if the headers have different
    keys, or if `Authorization` does not consist of a scheme and credentials.
    """
    found = set()
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            found.add(value)
        elif name == b"authorization":
            scheme, _, credentials = value.partition(b" ")
            if not credentials:
                raise errors.UnauthenticatedError(_HOW)
            if scheme.lower() == b"bearer":
                found.add(credentials.strip())
    if len(found) > 1:
        raise errors.UnauthenticatedError("the headers have different API keys; send one")
    return str(found.pop(), "latin-1") if found else None


def _check(caller: Caller, need: Need, path: str) -> None:
    if need.scope is not None and need.scope not in caller.scopes:
        raise errors.ForbiddenError(
            f"the request needs the scope {quoted(need.scope)}, which the API key does not have"
        )
    if need.every_model and not caller.names.all:
        raise errors.ForbiddenError("the request needs an API key for all models; this key is for some models")
    path = path.removeprefix("/v1")
    if path.startswith("/models/"):
        check_model(path.split("/", 3)[2], "name")


def _check_count(counted: RequestCount, limit: list[Header]) -> None:
    """Append the headers of draft-ietf-httpapi-ratelimit-headers-10; raise RateLimitedError above the limit."""
    reset = "" if counted.resets_in is None else f";t={counted.resets_in}"
    limit.append((b"ratelimit-policy", f'"key";q={counted.most};w={counted.window}'.encode()))
    limit.append((b"ratelimit", f'"key";r={max(counted.left, 0)}{reset}'.encode()))
    if counted.left < 0:
        detail = f"the API key may make at most {counted.most} requests in {counted.window} s"
        raise errors.RateLimitedError(detail, retry_after=counted.resets_in or counted.window)

"""What holds for every answer, whatever the request, and how often it was checked."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2

from service.api.middleware.access import need_of
from tests.fuzz.api.control import CONTROL, SECRET
from tests.service.described import check_refusal, check_schema, check_type
from tests.service.problem_laws import check_declared


class Exchange(NamedTuple):
    """A request with its answer.

    Attributes:
        operation: schemathesis' description of the operation that the request is meant for.
        method: of the request, which may be one that the path does not have.
        caller: name of the sender.
        response: the answer.
    """

    operation: Any
    method: str
    caller: str
    response: httpx2.Response

    @property
    def described(self) -> dict[str, Any]:
        """Return the operation's answers in openapi.json."""
        answers: dict[str, Any] = self.operation.definition.raw["responses"]
        return answers

    @property
    def is_supported(self) -> bool:
        """Check whether the request has the operation's method."""
        return bool(self.method == self.operation.method.upper())


def _no_failure(exchange: Exchange) -> None:
    """Full stores and overload are answered with 507 and 503; neither happens here."""
    assert exchange.response.status_code < 500


def _type(exchange: Exchange) -> None:
    check_type(exchange.described, exchange.response)


def _schema(exchange: Exchange) -> None:
    check_schema(exchange.described, exchange.response)


def _refusal(exchange: Exchange) -> None:
    check_refusal(exchange.described, exchange.response)
    request, problem = exchange.response.request, exchange.response.json()
    check_declared(request.method, request.url.path, problem)
    assert problem["request_id"] == exchange.response.headers["x-request-id"]


def _method(exchange: Exchange) -> None:
    response = exchange.response
    assert response.status_code in (401, 403, 404, 405, 429), "an unsupported method is refused"
    assert response.headers["content-type"] == "application/problem+json"
    if response.status_code == 405:
        assert exchange.method not in response.headers["allow"].split(", ")


def _wrong_key(exchange: Exchange) -> None:
    assert exchange.response.status_code in (401, 429), "a request without a valid key is refused"


def _reader(exchange: Exchange) -> None:
    assert exchange.response.status_code in (401, 403), "a key for reading opens nothing else"  # 401: two keys


def _hidden(exchange: Exchange) -> None:
    assert SECRET not in exchange.response.text, "the answer shows a label of another key's model"


def _foreign(exchange: Exchange) -> None:
    assert exchange.response.status_code >= 400, "the key may not use the model"


_OUTSIDERS = {"scoped", "reader", "wrong", "none"}
_Applies = Callable[[Exchange], bool]


def _is_closed(exchange: Exchange) -> bool:
    return need_of(exchange.method, exchange.operation.path) is not None


def _must_read(exchange: Exchange) -> bool:
    need = need_of(exchange.method, exchange.response.request.url.path)
    return exchange.caller == "reader" and need is not None and need.scope != "read"


def _names_control(exchange: Exchange) -> bool:
    request = exchange.response.request
    parts = request.url.path.removeprefix("/v1").split("/")
    body = request.content if exchange.operation.path in ("/predict", "/feedback", "/activate") else b""
    return parts[1:3] == ["models", CONTROL] or f'"{CONTROL}'.encode() in body


CHECKS: dict[str, tuple[_Applies, Callable[[Exchange], None]]] = {
    "no 5xx": (lambda _: True, _no_failure),
    "documented status and content type": (lambda each: each.is_supported, _type),
    "body fits its schema": (lambda each: each.is_supported, _schema),
    "refusal is a listed problem+json": (
        lambda each: each.is_supported and each.response.status_code >= 400,
        _refusal,
    ),
    "unsupported method is refused": (lambda each: not each.is_supported, _method),
    "wrong or missing key is refused": (
        lambda each: each.caller in ("wrong", "none") and _is_closed(each),
        _wrong_key,
    ),
    "key for reading changes nothing": (_must_read, _reader),
    "foreign model is refused": (
        lambda each: each.caller in _OUTSIDERS and _is_closed(each) and _names_control(each),
        _foreign,
    ),
    "foreign model is hidden": (lambda each: each.caller in _OUTSIDERS, _hidden),
}
"""Each check, with the exchanges that it applies to."""


class Counts:
    """How often each check was made, the statuses, and what failed."""

    def __init__(self) -> None:
        self.checks, self.statuses, self.callers = Counter[str](), Counter[int](), Counter[str]()
        self.failures: dict[str, str] = {}

    @property
    def cases(self) -> int:
        """Return the number of answered requests."""
        return self.statuses.total()

    def check(self, exchange: Exchange) -> None:
        """Make all checks of an exchange."""
        self.statuses[exchange.response.status_code] += 1
        self.callers[exchange.caller] += 1
        for name, (applies, check) in CHECKS.items():
            if applies(exchange):
                self.checks[name] += 1
                try:
                    check(exchange)
                except Exception as error:  # noqa: BLE001  any error is a finding
                    self.fail(f"{name}: {exchange.method} {exchange.operation.path}", error, exchange)

    def fail(self, what: str, error: Exception, exchange: Exchange | None = None) -> None:
        """Note a failure; of each kind, the first is kept."""
        text = f"{what}: {type(error).__name__}: {str(error)[:300]}"
        if exchange is not None:
            request, response = exchange.response.request, exchange.response
            sent = f"{request.method} {request.url} {request.headers.raw} {request.content[:600]!r}"
            text += f"\n    {exchange.caller}: {sent[:1200]}\n    {response.status_code} {response.text[:400]!r}"
        if what not in self.failures:
            self.failures[what] = text
            print(f"    {text}", file=sys.stderr, flush=True)

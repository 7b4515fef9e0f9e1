"""Sends operations with httpx2 or httpx: attempts, time limits, waits and errors."""

import asyncio
import copy
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

import httpx2

from wager_client import checks
from wager_client.errors import DeadlineError, NoAnswerError, ProblemError, WagerError
from wager_client.operations import Answer, Operation

_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError"})  # nothing was sent

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8000"


class SyncTransport(Protocol):
    """The part of `httpx2.Client` and `httpx.Client` that `Wager` uses."""

    def stream(
        self, method: str, url: str, *, content: Any, params: Any, headers: Any, extensions: Any
    ) -> AbstractContextManager[Any]:
        """Send a request, and return a context manager of its response."""

    def close(self) -> None:
        """Close the connections."""


class AsyncTransport(Protocol):
    """The part of `httpx2.AsyncClient` and `httpx.AsyncClient` that `AsyncWager` uses."""

    async def request(self, method: str, url: str, *, content: Any, params: Any, headers: Any, extensions: Any) -> Any:
        """Send a request, and return its response."""

    async def aclose(self) -> None:
        """Close the connections."""


@dataclass(frozen=True)
class Options:
    """The options of a client."""

    base_url: str
    api_key: str | None
    timeout: float
    max_retries: int
    backoff: float

    @classmethod
    def of(
        cls, base_url: str | None, api_key: str | None, timeout: float, max_retries: int, backoff: float
    ) -> "Options":
        """Return the options, with defaults from the environment. Raises `ValueError` or `TypeError`."""
        url = os.environ.get("WAGER_BASE_URL") or DEFAULT_URL if base_url in (None, "") else base_url
        key = os.environ.get("WAGER_API_KEY") or None if api_key in (None, "") else api_key
        return cls(url, key, timeout, max_retries, backoff)

    def __post_init__(self) -> None:
        url = checks.text("base_url", self.base_url, "a URL such as http://127.0.0.1:8000")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"base_url: got {url!r}; must begin with http:// or https://")
        object.__setattr__(self, "base_url", url.rstrip("/"))
        if self.api_key is not None:
            _check_key(self.api_key)
        checks.number("timeout", self.timeout, 0, above=True)
        checks.whole("max_retries", self.max_retries, 0)
        checks.number("backoff", self.backoff, 0)

    def changed(self, **options: Any) -> "Options":
        """Return a copy with some options replaced. None keeps an option."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def headers(self, content: bytes | None, more: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request."""
        headers = {"Accept": "application/json", **more}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if content is not None:
            headers["Content-Type"] = "application/json"
        return headers


def _check_key(key: object) -> None:
    """Refuse a key that a header cannot contain, without showing the key."""
    if not isinstance(key, str):
        raise TypeError(f"api_key: got an object of the type {type(key).__name__}; must be a string")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("api_key: has a line break, or another character that is not printable ASCII")


class PerProcess(Generic[T]):
    """An HTTP client for each process: after a fork, shared connections would mix up the answers of both processes."""

    def __init__(self, first: T, another: Callable[[], T]) -> None:
        self._of_process, self._another = {os.getpid(): first}, another

    def here(self) -> T:
        """Return the HTTP client of this process. Raises `RuntimeError` in a fork if the caller supplied it."""
        found = self._of_process.get(os.getpid())
        return self._of_process.setdefault(os.getpid(), self._another()) if found is None else found


def _refuse_fork() -> NoReturn:
    raise RuntimeError(
        "http_client was created before a fork, and its connections must not be shared; create it and the client after "
        "the fork"
    )


def sync_transport(given: Any) -> PerProcess[SyncTransport]:
    """Wrap the caller's HTTP client; for None, create one per process. Raises `TypeError` if it is not synchronous."""
    if given is None:
        return PerProcess[SyncTransport](httpx2.Client(), httpx2.Client)
    if not _has(given, "stream", "close"):
        raise checks.wrong("http_client", given, "an httpx2.Client or httpx.Client; AsyncWager takes an AsyncClient")
    return PerProcess[SyncTransport](given, _refuse_fork)


def async_transport(given: Any) -> PerProcess[AsyncTransport]:
    """Wrap the caller's HTTP client; for None, create one per process. Raises `TypeError` if it is not for asyncio."""
    if given is None:
        return PerProcess[AsyncTransport](httpx2.AsyncClient(), httpx2.AsyncClient)
    if not _has(given, "request", "aclose"):
        raise checks.wrong("http_client", given, "an httpx2.AsyncClient or httpx.AsyncClient; Wager takes a Client")
    return PerProcess[AsyncTransport](given, _refuse_fork)


def _has(given: object, *methods: str) -> bool:
    return not isinstance(given, type) and all(callable(getattr(given, name, None)) for name in methods)


class Counts:
    """The counters of a client. Clients from `with_options` share them.

    Attributes:
        retries: attempts after the first one of a call.
        defaults: predictions that the caller's default answered.
        ignored: feedback and activations for default answers, which were not sent.
    """

    def __init__(self) -> None:
        self.retries = 0
        self.defaults = 0
        self.ignored = 0


class Configured(Generic[T]):
    """The base of both clients: the options, connections and counts."""

    def __init__(self, options: Options, http: PerProcess[T], *, own: bool) -> None:
        self._options, self._http, self._own = options, http, own
        self.counts = Counts()

    @property
    def timeout(self) -> float:
        """The maximum seconds for a whole call, including retries."""
        return self._options.timeout

    def with_options(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        backoff: float | None = None,
    ) -> Self:
        """Return a client with other options, which shares the connections and the counts. Close only the original."""
        options = self._options.changed(
            base_url=base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, backoff=backoff
        )
        self._http.here()  # raises in a fork: a queue must not accept feedback that it cannot send
        other = copy.copy(self)
        vars(other).update(_options=options, _own=False)
        return other


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors of a request without an answer, including httpx's if the caller has imported it."""
    other = sys.modules.get("httpx")
    return (httpx2.TransportError, OSError) if other is None else (httpx2.TransportError, OSError, other.TransportError)


def is_timeout(error: Exception) -> bool:
    """Check whether an error of `connection_errors` is a timeout."""
    return isinstance(error, TimeoutError) or any(each.__name__ == "TimeoutException" for each in type(error).__mro__)


def no_answer(error: Exception, url: str) -> NoAnswerError:
    """Return the client's error for one of `connection_errors`."""
    name = type(error).__name__
    return NoAnswerError(f"{url} did not answer: {error or name}", maybe_done=name not in _UNSENT)


LONGEST_WAIT = 5.0  # mean seconds between two attempts
LONGEST_ATTEMPT = 5.0
"""Maximum seconds of a quick attempt, except the last: a dead worker's connection may hang for half a minute."""

_LEAST_TIMEOUT = 0.001  # seconds
_LEAST_SHARE = 1.0  # minimum seconds of a quick attempt, unless less time is left


class Attempts:
    """The attempts of one call. The mean waits between them double, up to `LONGEST_WAIT`.

    A request that is not `repeatable` is not sent again if the service may have executed it. An attempt at a
    `quick` and `repeatable` request, except the last, takes at most `LONGEST_ATTEMPT` and about half of the time left,
    because a connection to a dead worker may hang. `now` returns seconds of a monotonic clock, `draw` a random number
    in [0, 1).
    """

    def __init__(
        self, options: Options, repeatable: bool, quick: bool, now: Callable[[], float], draw: Callable[[], float]
    ) -> None:
        self.failed = 0
        self._options, self._repeatable, self._quick = options, repeatable, quick
        self._now, self._draw = now, draw
        self._deadline = self._end = now() + options.timeout

    def left(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        return self._deadline - self._now()

    def begin(self) -> None:
        """Begin an attempt. It may use all the remaining time if it is the last, or not quick, or not repeatable."""
        self._end = self._deadline
        if self._quick and self._repeatable and self.failed < self._options.max_retries:
            share = min(LONGEST_ATTEMPT, max(self.left() / 2, _LEAST_SHARE))
            self._end = min(self._deadline, self._now() + share)

    def attempt_left(self) -> float:
        """Return the remaining seconds of the attempt, negative after its end."""
        return self._end - self._now()

    def check(self) -> None:
        """Check the time of the attempt. Raises `NoAnswerError` after its end."""
        if self.attempt_left() <= 0:
            raise self.timeout_error()

    def timeout_error(self) -> NoAnswerError:
        """Return the error for an attempt that took too long."""
        if self._end < self._deadline:
            return NoAnswerError("no answer in the time of one attempt")
        return DeadlineError(f"no answer within {self._options.timeout:g} s")

    def wait_after(self, error: WagerError) -> float:
        """Return the seconds to wait before the next attempt; or raise the error if there is no next one."""
        if not error.is_away or (error.maybe_done and not self._repeatable) or self.failed >= self._options.max_retries:
            raise error
        wait = min(LONGEST_WAIT, self._options.backoff * 2.0**self.failed) * (0.5 + self._draw())
        if isinstance(error, ProblemError) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        if wait >= self.left():
            raise error
        self.failed += 1
        return wait


class RemainingTime(Mapping[str, float]):
    """The timeouts of httpx: when read, each is the remaining time of the attempt, in seconds."""

    _NAMES = ("connect", "read", "write", "pool")

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __getitem__(self, name: str) -> float:
        if name not in self._NAMES:
            raise KeyError(name)
        return min(threading.TIMEOUT_MAX, max(_LEAST_TIMEOUT, self._attempts.attempt_left()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._NAMES)

    def __len__(self) -> int:
        return len(self._NAMES)


def call(operation: Operation[T], http: SyncTransport, options: Options, counts: Counts) -> T:
    """Send an operation until it succeeds; count its retries. Raises `WagerError` for a refusal or an outage."""
    attempts, content = _attempts(operation, options), operation.content()
    while True:
        try:
            return operation.result(_attempt(operation, http, options, content, attempts))
        except WagerError as error:
            wait = attempts.wait_after(error)
        time.sleep(wait)
        counts.retries += 1


async def call_async(operation: Operation[T], http: AsyncTransport, options: Options, counts: Counts) -> T:
    """Send an operation until it succeeds. See `call`."""
    attempts, content = _attempts(operation, options), operation.content()
    while True:
        try:
            return operation.result(await _attempt_async(operation, http, options, content, attempts))
        except WagerError as error:
            wait = attempts.wait_after(error)
        await asyncio.sleep(wait)
        counts.retries += 1


def _attempts(operation: Operation[T], options: Options) -> Attempts:
    return Attempts(options, operation.repeatable, operation.quick, time.monotonic, random.random)


def _attempt(
    operation: Operation[Any], http: SyncTransport, options: Options, content: bytes | None, attempts: Attempts
) -> Answer:
    """Send the request once. Each network read ends when the attempt's time is over."""
    attempts.begin()
    try:
        with http.stream(
            operation.method, options.base_url + operation.path, **_parts(operation, options, content, attempts)
        ) as response:
            return Answer(response.status_code, response.headers, _body(response, attempts))
    except connection_errors() as error:
        raise _error(error, operation, options, attempts) from error


async def _attempt_async(
    operation: Operation[Any], http: AsyncTransport, options: Options, content: bytes | None, attempts: Attempts
) -> Answer:
    """Send the request once, within the attempt's time."""
    attempts.begin()
    try:
        async with asyncio.timeout(attempts.attempt_left()):
            response = await http.request(
                operation.method, options.base_url + operation.path, **_parts(operation, options, content, attempts)
            )
        return Answer(response.status_code, response.headers, response.content)
    except connection_errors() as error:
        raise _error(error, operation, options, attempts) from error


def _parts(operation: Operation[Any], options: Options, content: bytes | None, attempts: Attempts) -> dict[str, Any]:
    return {
        "content": content,
        "params": operation.params or None,
        "headers": options.headers(content, operation.headers),
        "extensions": {"timeout": RemainingTime(attempts)},
    }


def _error(error: Exception, operation: Operation[Any], options: Options, attempts: Attempts) -> WagerError:
    if is_timeout(error):
        return attempts.timeout_error()
    return no_answer(error, options.base_url + operation.path)


def _body(response: Any, attempts: Attempts) -> bytes:
    parts = []
    for part in response.iter_bytes():
        attempts.check()
        parts.append(part)
    return b"".join(parts)

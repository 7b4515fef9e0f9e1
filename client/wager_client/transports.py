"""What the clients need from httpx2 or httpx, and the errors of both."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import httpx2

from wager_client import checks
from wager_client.errors import NoAnswerError

_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError"})

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
        """Return the options, with defaults from the environment.

        Raises:
            ValueError: if one is out of range.
            TypeError: if one has another type.
        """
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
        """Return the options with others in the place of some; None keeps an option."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def headers(self, content: bytes | None, more: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request."""
        headers = {"Accept": "application/json", **more}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if content is not None:
            headers["Content-Type"] = "application/json"
        return headers


def _check_key(key: Any) -> None:
    """Refuse a key that no header can have, without showing it."""
    if not isinstance(key, str):
        raise TypeError(f"api_key: got an object of the type {type(key).__name__}; must be a string")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("api_key: has a line break, or another character that is not printable ASCII")


class PerProcess(Generic[T]):
    """An HTTP client for each process: on its parent's connections, a fork would get the parent's answers.

    What the parent opened is neither used nor closed in the fork.

    Args:
        first: the HTTP client of this process.
        another: returns the one of a fork.
    """

    def __init__(self, first: T, another: Callable[[], T]) -> None:
        self._of_process, self._another = {os.getpid(): first}, another

    def here(self) -> T:
        """Return the HTTP client of this process.

        Raises:
            RuntimeError: if it is the caller's, and this process is a fork of the one that got it.
        """
        found = self._of_process.get(os.getpid())
        return self._of_process.setdefault(os.getpid(), self._another()) if found is None else found


def _refuse_fork() -> NoReturn:
    raise RuntimeError(
        "http_client was given before a fork, which would share its connections; make it and the client after the fork"
    )


def sync_transport(given: Any) -> PerProcess[SyncTransport]:
    """Return the caller's HTTP client, or new ones for None.

    Raises:
        TypeError: if it is none for code without asyncio.
    """
    if given is None:
        return PerProcess[SyncTransport](httpx2.Client(), httpx2.Client)
    if not _has(given, "stream", "close"):
        raise checks.wrong("http_client", given, "an httpx2.Client or httpx.Client; AsyncWager takes an AsyncClient")
    return PerProcess[SyncTransport](given, _refuse_fork)


def async_transport(given: Any) -> PerProcess[AsyncTransport]:
    """Return the caller's HTTP client, or new ones for None.

    Raises:
        TypeError: if it is none for asyncio.
    """
    if given is None:
        return PerProcess[AsyncTransport](httpx2.AsyncClient(), httpx2.AsyncClient)
    if not _has(given, "request", "aclose"):
        raise checks.wrong("http_client", given, "an httpx2.AsyncClient or httpx.AsyncClient; Wager takes a Client")
    return PerProcess[AsyncTransport](given, _refuse_fork)


def _has(given: Any, *methods: str) -> bool:
    return not isinstance(given, type) and all(callable(getattr(given, name, None)) for name in methods)


class Counts:
    """What a client has counted since it was made. Clients of `with_options` count together.

    Attributes:
        retries: attempts after the first one of a call.
        defaults: predictions that the caller's default answered.
        ignored: feedback and activations for default answers, which were not sent.
    """

    def __init__(self) -> None:
        self.retries = 0
        self.defaults = 0
        self.ignored = 0


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a request without an answer. httpx has them only if the caller has imported it."""
    other = sys.modules.get("httpx")
    return (httpx2.TransportError, OSError) if other is None else (httpx2.TransportError, OSError, other.TransportError)


def is_timeout(error: Exception) -> bool:
    """Check whether an error of `connection_errors` is a timeout."""
    return isinstance(error, TimeoutError) or any(each.__name__ == "TimeoutException" for each in type(error).__mro__)


def no_answer(error: Exception, url: str) -> NoAnswerError:
    """Return the client's error for one of `connection_errors`."""
    name = type(error).__name__
    return NoAnswerError(f"{url} did not answer: {error or name}", maybe_done=name not in _UNSENT)

"""Restricts requests from web pages of other sites: CORS, and checks of host and origin if no keys are required."""

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.error_messages.values import quoted
from service.errors import ForeignOriginError, UnknownHostError

ALLOWED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ALLOWED_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-API-Key", "X-Request-ID")
EXPOSED_HEADERS = ("ETag", "Link", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID")


class Cors(CORSMiddleware):
    """Starlette's CORS middleware, applied only to requests from allowed origins.

    It precedes the key checks: a preflight request has no key, and its response contains no secret. Requests from other
    origins pass unchanged, and their responses have no CORS headers.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=ALLOWED_METHODS,
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=600,  # seconds
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and Headers(scope=scope).get("origin") in self.allow_origins:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return a response with everything that is allowed; the browser compares it with what the page requests."""
        headers = {**self.preflight_headers, "Access-Control-Allow-Origin": request_headers["origin"]}
        return Response(status_code=204, headers=headers)


_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+?)\.?)(?::([0-9]{0,5}))?", re.IGNORECASE)
_DEFAULT_PORTS = {b"http": "80", b"https": "443"}
_READS = frozenset({"GET", "OPTIONS"})  # the observer converts HEAD to GET


class _Authority(NamedTuple):
    """The host and the port of a URL."""

    name: str  # lower case, without brackets or a trailing dot
    port: str  # empty if absent
    is_address: bool


class OwnPages:
    """The hosts and the origins of the pages that may use the service without a key.

    Every IP address is accepted as a host: an attack by DNS rebinding needs a name.
    """

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = frozenset({"localhost", *(host.lower().removesuffix(".") for host in hosts)})
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def check(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Check the headers `Host` and `Origin`, if present: browsers send both with every writing request.

        Raises UnknownHostError for an unknown `Host`, ForeignOriginError for a writing request from a foreign `Origin`.
        """
        host, origins = None, []
        for name, value in headers:
            if name == b"host":
                host = value if host in (None, value) else host + b", " + value  # several values match no host
            elif name == b"origin":  # a proxy may add another one
                origins.append(value)
        own = None if host is None else _read(host)
        if host is not None and not (own and (own.is_address or own.name in self._hosts)):
            raise UnknownHostError(
                f"got the Host {_shown(host)}; without API keys, the service answers to IP addresses, localhost and "
                "the names in WAGER_ALLOWED_HOSTS"
            )
        for origin in () if method in _READS else origins:
            if origin not in self._origins and not _is_of(own, origin):
                shown = "no Host" if host is None else f"the Host {_shown(host)}"
                raise ForeignOriginError(
                    f"got the Origin {_shown(origin)} and {shown}; without API keys, only pages of the service itself "
                    "and of WAGER_CORS_ORIGINS may write"
                )


def _is_of(own: _Authority | None, origin: bytes) -> bool:
    """Check whether an origin has the service's host and port. A proxy may terminate TLS, so the scheme may differ."""
    scheme, _, authority = origin.partition(b"://")
    default = _DEFAULT_PORTS.get(scheme)  # None for `null`, and for pages that are files or extensions
    page = _read(authority)
    if default is None or page is None or own is None:
        return False
    return (page.name, page.port or default) == (own.name, own.port or default)


@lru_cache(maxsize=64)  # requests repeat a few values
def _read(authority: bytes) -> _Authority | None:
    found = _AUTHORITY.fullmatch(authority.decode("latin-1"))
    if found is None:
        return None
    address, name, port = found.groups()
    return _Authority((address or name).lower(), port or "", _is_address(address or name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(value: bytes) -> str:
    return quoted(value.decode("latin-1"))

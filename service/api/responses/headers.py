"""Security headers of every response, for browsers."""

import hashlib
import re
from collections.abc import Iterable

from fastapi import Request, Response

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Defaults: a response may set other values. A TLS proxy, if any, adds Strict-Transport-Security."""

_ADDED = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _ in _ADDED)


def complete(given: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the id of the request, and the security headers that it lacks."""
    headers = list(given)
    there = {name for name, _ in headers}
    headers.append((b"x-request-id", request_id.encode()))
    return headers + (_ADDED if _NAMES.isdisjoint(there) else [each for each in _ADDED if each[0] not in there])


_TAG = re.compile(r'"[\x21\x23-\x7e]*"')

_HEADERS = {"Cache-Control": "no-cache"}
"""Private content that may be kept, but must be checked before each use. `no-store` would forbid to keep it."""


def conditional(request: Request, body: bytes) -> Response:
    """Return a JSON body with its ETag; 304 if a tag in `If-None-Match` is the same."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, **_HEADERS}
    given = ",".join(request.headers.getlist("if-none-match"))
    if given.strip() == "*" or tag in _TAG.findall(given):
        return Response(None, 304, headers)
    return Response(body, 200, headers, "application/json")

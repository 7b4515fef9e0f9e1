"""Security headers of every response, for browsers."""

from collections.abc import Iterable

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

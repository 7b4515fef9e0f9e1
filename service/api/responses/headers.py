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

HEADER_LINES = b"".join(b"%b: %b\r\n" % header for header in _ADDED)
"""The security headers as a server writes them."""


def complete(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers that it lacks."""
    headers = list(given)
    there = {name for name, _ in headers}
    return headers + [each for each in _ADDED if each[0] not in there]

"""Responses with an ETag: a client that has the same content already gets 304 without a body (RFC 9110, section 13)."""

import hashlib
import re

from fastapi import Request, Response

_TAG = re.compile(r'"[\x21\x23-\x7e]*"')

_HEADERS = {"Cache-Control": "no-cache"}
"""Private content that may be kept, but must be checked before each use. `no-store` would forbid to keep it."""


def conditional(request: Request, body: bytes) -> Response:
    """Return a JSON body with its ETag; 304 if a tag in `If-None-Match` is the same.

    Args:
        request: the request.
        body: the content.
    """
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, **_HEADERS}
    given = ",".join(request.headers.getlist("if-none-match"))
    if given.strip() == "*" or tag in _TAG.findall(given):
        return Response(None, 304, headers)
    return Response(body, 200, headers, "application/json")

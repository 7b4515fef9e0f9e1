"""Which request and which trace a call belongs to, read from its headers, which anyone may have written."""

import itertools
import re
from collections.abc import Callable

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:+/=@-]{1,128}")
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


def accepted_request_id(given: bytes) -> str | None:
    """The value of `X-Request-ID`, if it is fit to be answered and logged: 1 to 128 letters, digits and `._~:+/=@-`."""
    return given.decode() if _REQUEST_ID.fullmatch(given) else None


def request_ids(noise: bytes) -> Callable[[], str]:
    """Makes ids: the noise, different in each process, and a number. They name requests and guard nothing."""
    prefix, numbers = noise.hex(), itertools.count()
    return lambda: f"{prefix}{next(numbers):012x}"


def trace_id(traceparent: bytes) -> str | None:
    """The trace that a `traceparent` header names (W3C Trace Context, section 3.2), if it is well formed."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, span, more = found.groups()
    valid = version != b"ff" and trace != _NO_TRACE and span != _NO_SPAN and (version != b"00" or more is None)
    return trace.decode() if valid else None

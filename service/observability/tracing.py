"""Request ids and traces."""

import itertools
import os
import re
from collections.abc import Callable

from opentelemetry import trace

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:+/=@-]{1,128}")
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


def accepted_request_id(given: bytes) -> str | None:
    """Return the value of `X-Request-ID` if it has 1 to 128 letters, digits and `._~:+/=@-`, else None."""
    return given.decode() if _REQUEST_ID.fullmatch(given) else None


def request_ids(noise: bytes) -> Callable[[], str]:
    """Return a generator of ids: the noise of the process, and a counter. The ids are not secret."""
    prefix, numbers = noise.hex(), itertools.count()
    return lambda: f"{prefix}{next(numbers):012x}"


def trace_id(traceparent: bytes) -> str | None:
    """Return the trace id of a well-formed `traceparent` header (W3C Trace Context, section 3.2), else None."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, span, more = found.groups()
    valid = version != b"ff" and trace != _NO_TRACE and span != _NO_SPAN and (version != b"00" or more is None)
    return trace.decode() if valid else None


def is_on() -> bool:
    """Check whether the environment turns traces on."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    wanted = any(os.environ.get(name) for name in endpoints)
    return wanted and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def name_service() -> None:
    """Set the service name of the traces, unless the environment has one."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "wager")


def span_trace_id() -> str | None:
    """Return the id of the current trace, in 32 hexadecimal digits, or None."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None

"""What is known of the request under way, for its log line, its errors, and its metrics.

The interface opens the notes; whoever learns something later adds it. A task started for a request sees its notes.
"""

from contextvars import ContextVar


class RequestContext:
    """What one request is about. None of it is secret, and none of it a context."""

    __slots__ = ("key_id", "model", "request_id", "trace_id")

    def __init__(self, request_id: str, trace_id: str | None = None) -> None:
        self.request_id = request_id
        self.trace_id = trace_id  # 32 hexadecimal digits, of the caller's W3C trace
        self.model: str | None = None
        self.key_id: str | None = None  # names the API key, without telling it


current: ContextVar[RequestContext | None] = ContextVar("current", default=None)
"""The notes of the request under way; None outside of any."""


def note_model(name: str) -> None:
    """Says which model the request under way is about."""
    notes = current.get()
    if notes is not None:
        notes.model = name


def note_key(key_id: str) -> None:
    """Says which API key the request under way was made with: its public id, never the key."""
    notes = current.get()
    if notes is not None:
        notes.key_id = key_id

"""The notes on the current request, for its log line and its errors.

The middleware `Observer` creates the notes; later steps add to them. Tasks started by a request inherit its notes.
"""

from collections.abc import Callable
from contextvars import ContextVar


class RequestContext:
    """The notes on one request. They contain no secrets and no contexts."""

    __slots__ = ("charge", "key_id", "model", "path", "refused_by", "request_id", "status", "trace_id")

    def __init__(self, request_id: str, path: str = "", trace_id: str | None = None) -> None:
        self.request_id = request_id
        self.path = path  # percent-decoded; it may begin with /v1
        self.trace_id = trace_id  # W3C trace id, 32 hexadecimal digits: the current span's if traced, else the client's
        self.status = 0  # of the response; 0 before it begins
        self.model: str | None = None
        self.key_id: str | None = None  # the public id of the API key
        self.refused_by: str | None = None  # the budget of the key that is used up
        self.charge: Callable[[float], None] | None = None  # counts seconds of processor time; None if nobody does


current: ContextVar[RequestContext | None] = ContextVar("current", default=None)
"""The notes on the current request; None outside requests."""


def note_model(name: str | None) -> None:
    """Record the model of the current request; None if it has several."""
    notes = current.get()
    if notes is not None:
        notes.model = name


def note_key(key_id: str, charge: Callable[[float], None] | None) -> None:
    """Record the public id of the current request's API key, never the key, and what counts its processor time."""
    notes = current.get()
    if notes is not None:
        notes.key_id, notes.charge = key_id, charge


def note_refusal(budget: str) -> None:
    """Record the budget of the key that is used up, so that the current request is refused."""
    notes = current.get()
    if notes is not None:
        notes.refused_by = budget

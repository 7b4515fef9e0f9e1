"""One line for each request: as many a second as is allowed, every failure, and how many were left out."""

import logging
from collections.abc import Callable

from service.request_notes import RequestNotes

_log = logging.getLogger("wager.requests")


class RequestLog:
    """Writes what was asked and answered; never a body, a header, a query or the path as it was sent.

    Answers below 400 and refusals (400 to 499) have a share of their own, so neither hides the other. Failures (500
    and above) are always written.

    Args:
        per_second: lines of each share in a second.
        now: seconds, on a clock that does not go back.
    """

    def __init__(self, per_second: int, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._now = now
        self._second = -1
        self._written = [0, 0]  # in this second: answers, refusals
        self._left_out = 0

    def write(self, method: str, route: str, status: int, seconds: float, notes: RequestNotes) -> None:
        """Tells of a request, or counts it as left out."""
        if not self._may_write(status):
            self._left_out += 1
            return
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "request_id": notes.request_id,
            "trace_id": notes.trace_id,
            "model": notes.model,
            "key_id": notes.key_id,
        }
        told = {name: value for name, value in fields.items() if value is not None}
        _log.log(logging.ERROR if status >= 500 else logging.INFO, "request", extra=told)

    def tell_left_out(self) -> None:
        """Says how many requests were left out since this was last said; nothing if none were."""
        if self._left_out:
            _log.info("requests left out", extra={"count": self._left_out})
            self._left_out = 0

    def _may_write(self, status: int) -> bool:
        if status >= 500:
            return True
        second, share = int(self._now()), status >= 400
        if second != self._second:
            self._second, self._written = second, [0, 0]
        self._written[share] += 1
        return self._written[share] <= self._per_second

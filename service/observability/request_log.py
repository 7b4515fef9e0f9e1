"""One line for each request: as many a second as is allowed, every failure, and how many were left out."""

import logging

from service.request_context import RequestContext

_log = logging.getLogger("wager.requests")


class RequestLog:
    """Writes what was asked and answered; never a body, a header, a query or the path as it was sent.

    Answers below 400 and refusals (400 to 499) have a share of their own, so neither hides the other. Failures (500
    and above) are always written.

    Args:
        per_second: lines of each share from one `tick` to the next; the first begins full.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._answers_left = self._refusals_left = per_second
        self._left_out = 0

    def may_write(self, status: int) -> bool:
        """Whether there is a line for a request answered so; takes it if there is, else counts the request."""
        if status >= 500:
            return True
        if status < 400 and self._answers_left:
            self._answers_left -= 1
            return True
        if status >= 400 and self._refusals_left:
            self._refusals_left -= 1
            return True
        self._left_out += 1
        return False

    def write(self, method: str, route: str, status: int, seconds: float, notes: RequestContext) -> None:
        """Tells of a request."""
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
        given = {name: value for name, value in fields.items() if value is not None}
        _log.log(logging.ERROR if status >= 500 else logging.INFO, "request", extra=given)

    def tick(self) -> None:
        """Begins another second, and says how many requests were left out in the last, if any were."""
        self._answers_left = self._refusals_left = self._per_second
        if self._left_out:
            _log.info("requests left out", extra={"count": self._left_out})
            self._left_out = 0

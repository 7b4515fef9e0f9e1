"""Limits the requests in flight in a worker, so that accepted requests are answered.

Requests that need no key have a separate, ten times smaller limit, so that clients without a key cannot block the
others. At the limit, a new request replaces the oldest one whose body is still arriving, so that slow bodies block
nobody.
"""

import asyncio

from starlette.exceptions import HTTPException

LOST = HTTPException(
    408, "the body was still arriving when the worker reached its limit of requests in flight", {"Connection": "close"}
)

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})
_OPEN_SHARE = 10


class InFlight:
    """The places of one worker. Health checks need none: a busy worker is alive.

    Args:
        most: maximum requests in flight. Requests that need no key have an additional tenth, at least one.
    """

    def __init__(self, most: int) -> None:
        self._keyed = Places(most)
        self._open = Places(max(1, most // _OPEN_SHARE))

    def places(self, path: str, *, open_path: bool) -> "Places | None":
        """Return the places for requests to a path; None if it needs none.

        Args:
            path: the path.
            open_path: whether it needs no key.
        """
        if path in _ALWAYS:
            return None
        return self._open if open_path else self._keyed


class Places:
    """The places for one kind of request.

    Attributes:
        taken: places that are occupied.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._arriving: dict[Arrival, None] = {}  # oldest first

    def have_room(self) -> bool:
        """Check whether a place is free, or make one: cancel the oldest request whose body is still arriving."""
        if self.taken < self.most:
            return True
        oldest = next(iter(self._arriving), None)
        if oldest is None:
            return False
        oldest.lose_place()
        return True

    def expect(self) -> "Arrival":
        """Note that the body of the current task's request is still arriving."""
        arrival = Arrival(self._arriving, asyncio.current_task())
        self._arriving[arrival] = None
        return arrival


class Arrival:
    """A request whose body is still arriving. A newer request may take its place."""

    def __init__(self, arriving: "dict[Arrival, None]", task: "asyncio.Task[None] | None") -> None:
        self._arriving = arriving
        self._task = task
        self.lost_place = False

    def end(self) -> None:
        """Keep the place: the body is complete."""
        self._arriving.pop(self, None)

    def lose_place(self) -> None:
        """Stop waiting for the body."""
        self.end()
        self.lost_place = True
        if self._task is not None:
            self._task.cancel()

"""Limits the requests in flight in a worker, so that accepted requests are answered.

Requests that need no key have a separate, ten times smaller limit, so that clients without a key cannot block the
others. At the limit, a new request replaces the oldest one that waits for its body, so that slow bodies block nobody.
"""

import asyncio

from starlette.exceptions import HTTPException

from service.errors import OverloadedError

LOST = HTTPException(
    408, "the body was still arriving when the worker reached its limit of requests in flight", {"Connection": "close"}
)

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})


class InFlight:
    """The places of one worker. Health checks need none; requests without a key share an additional tenth."""

    def __init__(self, most: int) -> None:
        self._keyed = Places(most)
        self._open = Places(max(1, most // 10))

    def take(self, path: str, *, open_path: bool) -> "Place | None":
        """Take a place for a request; None if it needs none. Raises OverloadedError if no place is free."""
        if path in _ALWAYS:
            return None
        places = self._open if open_path else self._keyed
        if not places.have_room():
            raise OverloadedError(f"this worker has reached its limit of {places.most:,} such requests in flight")
        return Place(places)


class Places:
    """The places for one kind of request. `waiting` contains those whose request waits for its body, oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.waiting: dict[Place, None] = {}

    def have_room(self) -> bool:
        """Check whether a place is free; if not, try to cancel the oldest request that waits for its body."""
        if self.taken < self.most:
            return True
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            return False
        oldest.lose()
        return True


class Place:
    """The place of one request. While it waits for its body, a newer request may take the place."""

    __slots__ = ("_places", "_task", "is_lost")

    def __init__(self, places: Places) -> None:
        self._places = places
        places.taken += 1
        self._task: asyncio.Task[None] | None = None
        self.is_lost = False

    def wait(self) -> None:
        """Note that the current task waits for the body."""
        self._task = asyncio.current_task()
        self._places.waiting[self] = None

    def keep(self) -> None:
        """Keep the place: the body is complete."""
        self._places.waiting.pop(self, None)

    def free(self) -> None:
        """Free the place for another request."""
        self._places.taken -= 1
        self.keep()

    def lose(self) -> None:
        """Cancel the request that waits for its body."""
        self.keep()
        self.is_lost = True
        if self._task is not None:
            self._task.cancel()

"""Limits the requests in flight in a worker, so that accepted requests are answered.

Requests that need no key have a separate, ten times smaller limit, so that clients without a key cannot block the
others. One key gets at most half of the places, so that it cannot block other keys. At the limit, a new request
replaces the one waiting longest for its body, so that slow bodies block nobody.
"""

import asyncio
from collections import Counter

from starlette.exceptions import HTTPException

from service.errors import OverloadedError

LOST = HTTPException(
    408, "the body was still arriving when the worker reached its limit of requests in flight", {"Connection": "close"}
)

_ALWAYS = frozenset({"/livez", "/readyz", "/v1/livez", "/v1/readyz"})


class InFlight:
    """The places of one worker: `most` for requests that need a key, and a tenth as many more for those that do not.

    Health checks need no place.
    """

    def __init__(self, most: int) -> None:
        self._keyed = Places(most)
        self._open = Places(max(1, most // 10))

    def take(self, path: str, *, open_path: bool) -> "Place | None":
        """Take a place for a request; None if it needs none. Raises OverloadedError if there is no room."""
        if path in _ALWAYS:
            return None
        places = self._open if open_path else self._keyed
        if not places.have_room():
            which = " that need no key" if open_path else ""
            raise OverloadedError(f"this worker has reached its limit of {places.most:,} requests in flight{which}")
        return Place(places)


class Places:
    """The places for one kind of request. `waiting` has those that wait for a body, the longest wait first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.by_key = Counter[str]()
        self.waiting: dict[Place, None] = {}

    def have_room(self) -> bool:
        """Check whether a request may enter. If no place is free, cancel the one waiting longest for its body."""
        if self.taken < self.most:
            return True
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            return False
        oldest.lose()  # its task frees the place a moment later
        return True


class Place:
    """The place of one request. While the request waits for its body, a newer one may take the place."""

    __slots__ = ("_key_id", "_places", "_task", "is_lost")

    def __init__(self, places: Places) -> None:
        self._places = places
        places.taken += 1
        self._key_id: str | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_lost = False

    def claim(self, key_id: str) -> None:
        """Note whose place it is. Raises OverloadedError if the requests of this key occupy half of the places.

        All keys that are not known yet count as one, with the empty id.
        """
        self._disclaim()
        most = (self._places.most + 1) // 2
        if self._places.by_key[key_id] >= most:
            whose = "of the API key" if key_id else "with keys that are not known yet"
            raise OverloadedError(f"this worker has reached its limit of {most:,} requests in flight {whose}")
        self._places.by_key[key_id] += 1
        self._key_id = key_id

    def wait(self) -> None:
        """Note that the current task waits for the body of its request."""
        self._task = asyncio.current_task()
        self._places.waiting[self] = None

    def keep(self) -> None:
        """End the wait: the place can no longer be lost."""
        self._places.waiting.pop(self, None)

    def free(self) -> None:
        """Free the place for another request."""
        self._places.taken -= 1
        self._disclaim()
        self.keep()

    def _disclaim(self) -> None:
        if self._key_id is not None:
            self._places.by_key -= Counter([self._key_id])  # drops what is 0
            self._key_id = None

    def lose(self) -> None:
        """Mark the place as lost, and cancel the task that waits for the body."""
        self.keep()
        self.is_lost = True
        if self._task is not None:
            self._task.cancel()

"""Feedback that waits, in a lane for each model: a lane that makes no progress waits longer and delays no other."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from wager_client.operations import FeedbackItem

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0
_HURRIED_WAIT = 0.2  # maximum seconds between two attempts while someone waits for the queue
_LONGEST_ASKED = 60.0  # maximum seconds of a header Retry-After that the queue waits


class Entry(NamedTuple):
    """Feedback in the queue."""

    number: int
    item: FeedbackItem

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.item.prediction_id).partition(":")[0]


class Backoff:
    """The moment from which something may be tried again. The waits double with each failure in a row."""

    def __init__(self) -> None:
        self.failures, self.due, self._asked = 0, -math.inf, -math.inf

    def fail(self, now: float, draw: float, asked: float = 0.0) -> None:
        """Wait after a failure.

        Args:
            now: seconds of a monotonic clock.
            draw: a random number in [0, 1).
            asked: seconds that the service asked for.
        """
        self.failures += 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self.failures - 1, 20)) * (0.5 + draw)
        self._asked = now + min(asked, _LONGEST_ASKED)
        self.due = max(now + wait, self._asked)

    def hurry(self, now: float) -> None:
        """Wait only a moment from now, or as long as the service asked for."""
        self.due = max(min(self.due, now + _HURRIED_WAIT), self._asked)

    def reset(self) -> None:
        """Wait no longer, after a success."""
        self.failures, self.due, self._asked = 0, -math.inf, -math.inf


class Lane(Backoff):
    """Feedback of one model, in the order in which it is sent.

    Attributes:
        hopeless: whether its last answer is one that does not change within seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[Entry] = deque()
        self.hopeless = False

    def reset(self) -> None:
        """See `Backoff.reset`."""
        super().reset()
        self.hopeless = False


class Pool(Backoff):
    """Lanes that share requests. They wait together after a request that failed as a whole.

    Args:
        batch: maximum entries of a request.

    Attributes:
        lanes: by model; those that gave last are at the end.
        room: maximum entries of the next request, smaller after one that failed perhaps because of its items.
    """

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.lanes: dict[str, Lane] = {}
        self.room = self._batch = batch

    def lane(self, model: str) -> Lane:
        """Return the lane of a model."""
        return self.lanes.setdefault(model, Lane())

    def take(self, now: float) -> list[Entry]:
        """Remove and return the entries of a request: an equal share of each lane that is due, then what has room."""
        lanes = [(model, lane) for model, lane in self.lanes.items() if lane.entries and lane.due <= now]
        if not lanes or now < self.due:
            return []
        taken: list[Entry] = []
        for most in (max(1, self.room // len(lanes)), self.room):
            for _, lane in lanes[: self.room]:
                n = min(most, len(lane.entries), self.room - len(taken))
                taken += [lane.entries.popleft() for _ in range(n)]
        for model, lane in lanes[: self.room]:
            del self.lanes[model]
            self.lanes[model] = lane
        return taken

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Put entries to the front of their lanes."""
        for entry in reversed(entries):
            self.lane(entry.model).entries.appendleft(entry)

    def grow(self) -> None:
        """Let the next request have more entries, after a success."""
        self.room = min(self._batch, self.room + 1 + self._batch // 20)

    def next(self) -> float:
        """Return the moment from which a request is due."""
        return max(self.due, min((lane.due for lane in self.lanes.values() if lane.entries), default=math.inf))


class DropOrder:
    """The lanes from which a full queue drops, so that it need not search all of them for each new entry.

    It is true as long as only `pop` removes entries, and `add` adds those that change a rank.

    Args:
        lanes: the lanes.
        rank: of the entries of a lane; the lowest is the next to lose its first entry.
    """

    def __init__(self, lanes: Iterable[Lane], rank: Callable[[deque[Entry]], int]) -> None:
        self._rank = rank
        self._heap = [(rank(lane.entries), lane.entries) for lane in lanes if lane.entries]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        """Return whether it has an entry."""
        return bool(self._heap)

    def add(self, lane: Lane) -> None:
        """Add a lane that had no entries."""
        heapq.heappush(self._heap, (self._rank(lane.entries), lane.entries))

    def pop(self) -> Entry:
        """Remove and return the next entry."""
        entries = self._heap[0][1]
        entry = entries.popleft()
        if entries:
            heapq.heapreplace(self._heap, (self._rank(entries), entries))
        else:
            heapq.heappop(self._heap)
        return entry

"""The contents of a feedback queue: what waits, what was sent, and what became of it. No clock, threads or network."""

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from wager_client import checks
from wager_client.errors import ProblemError
from wager_client.operations import FeedbackItem
from wager_client.results import Feedback

Drop = Literal["oldest", "newest"]

OnDrop = Callable[[FeedbackItem, str], None]
"""Called for feedback that is not recorded, with the reason: `full`, `closed`, or the slug of a problem."""

_log = logging.getLogger(__name__)

_TOO_LATE = frozenset({"prediction-expired", "prediction-not-found", "model-not-found"})
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0


class Entry(NamedTuple):
    """Feedback in the queue."""

    number: int
    item: FeedbackItem


class Record(Protocol):
    """What remembers the queue beyond the process. See `Spool`."""

    def add(self, entry: Entry) -> None:
        """Remember an entry."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget entries."""


@dataclass(frozen=True)
class Report:
    """What became of the feedback that a queue got.

    Attributes:
        recorded: recorded by the service, and now rounds, or waiting for their window to close.
        duplicates: recorded before; for example, an earlier answer was lost.
        conflicts: refused, because the prediction has other feedback.
        expired: refused, because the prediction's window has closed, or it or its model no longer exists.
        refused: refused for another reason.
        dropped: not sent, because the queue was full or closed.
        ignored: not sent, because the prediction was a default answer.
        pending: still in the queue.
        damaged: lines of the file of the queue that could not be read, and are beside it now.
        last_error: the last error of a whole request; None after a success.
    """

    recorded: int = 0
    duplicates: int = 0
    conflicts: int = 0
    expired: int = 0
    refused: int = 0
    dropped: int = 0
    ignored: int = 0
    pending: int = 0
    damaged: int = 0
    last_error: str | None = None

    @property
    def lost(self) -> int:
        """The feedback that the service did not accept and will not get."""
        return self.conflicts + self.expired + self.refused + self.dropped


class Outbox:
    """The contents of a queue.

    Args:
        size: maximum entries.
        batch: maximum entries of one request.
        drop: which entry goes if there are too many.
        on_drop: called by `call_back` for each entry that is not recorded.
        record: remembers the entries beyond the process; None for nothing.
        restored: entries that it remembers.
        damaged: what it could not read.

    Raises:
        ValueError: if an argument is out of range.
        TypeError: if one has another type.
    """

    def __init__(
        self,
        size: int,
        batch: int,
        drop: Drop,
        on_drop: OnDrop | None = None,
        *,
        record: Record | None = None,
        restored: Sequence[Entry] = (),
        damaged: int = 0,
    ) -> None:
        checks.whole("size", size, 1)
        checks.whole("batch", batch, 1)
        if drop not in ("oldest", "newest"):
            raise ValueError(f"drop: got {drop!r}; must be 'oldest' or 'newest'")
        if on_drop is not None and not callable(on_drop):
            raise checks.wrong("on_drop", on_drop, "a function of the item and the reason")
        self._size, self._batch, self._drop, self._on_drop, self._record = size, batch, drop, on_drop, record
        self._waiting: deque[Entry] = deque(restored)
        self._sent: list[Entry] = []
        self._counts = dict.fromkeys(("recorded", "duplicates", "conflicts", "expired", "refused", "dropped"), 0)
        self._ignored, self._damaged, self._failures, self._last_error = 0, damaged, 0, ""
        self._losses: deque[tuple[FeedbackItem, str]] = deque()
        self._next = 1 + max((entry.number for entry in restored), default=0)

    @property
    def has_waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._waiting)

    @property
    def pending(self) -> int:
        """The number of entries without a result."""
        return len(self._waiting) + len(self._sent)

    def report(self) -> Report:
        """Return what became of the feedback so far."""
        more = {"ignored": self._ignored, "pending": self.pending, "damaged": self._damaged}
        return Report(**self._counts, **more, last_error=self._last_error or None)

    def add(self, item: FeedbackItem) -> bool:
        """Add feedback; return whether it is in the queue.

        Raises:
            ValueError: if the reward is NaN or infinite.
            TypeError: if JSON cannot express a value.
        """
        if item.prediction_id is None:
            self._ignored += 1
            return False
        json.dumps(item.body(), allow_nan=False)
        entry = Entry(self._next, item)
        self._next += 1
        if self.pending >= self._size and not self._make_room():
            self._lose(entry, "dropped", "full", known=False)
            return False
        self._waiting.append(entry)
        if self._record is not None:
            self._record.add(entry)
        return True

    def _make_room(self) -> bool:
        """Drop the oldest entry, if that is the rule and one is not on its way."""
        if self._drop == "newest" or not self._waiting:
            return False
        self._lose(self._waiting.popleft(), "dropped", "full")
        return True

    def take(self) -> list[FeedbackItem]:
        """Return the next request's items. They count as sent until `settle` or `put_back`."""
        self._sent = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
        return [entry.item for entry in self._sent]

    def settle(self, results: Sequence[Feedback | ProblemError]) -> bool:
        """Count the results of the items that were sent. Return whether some must be sent again."""
        again: list[Entry] = []
        gone: list[int] = []
        for entry, result in zip(self._sent, results, strict=True):
            if isinstance(result, ProblemError) and result.is_away:
                again.append(entry)
                self._last_error = str(result)
            else:
                gone.append(entry.number)
                self._count(entry, result)
        self._sent = []
        self._waiting.extendleft(reversed(again))
        self._forget(gone)
        if not again:
            self._failures, self._last_error = 0, ""
        return bool(again)

    def put_back(self, reason: str) -> None:
        """Put the items that were sent back to the front, after an error of the whole request."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent, self._last_error = [], reason

    def shrink(self, error: ProblemError) -> None:
        """Send fewer items together after a refusal of the whole request; refuse an item that was alone in it."""
        if len(self._sent) == 1:
            (entry,) = self._sent
            self._sent = []
            self._count(entry, error)
            self._forget([entry.number])
        else:
            self._batch = max(1, len(self._sent) // 2)
            self.put_back(str(error))

    def call_back(self) -> None:
        """Call `on_drop` for what was lost since the last call, outside any lock. Its errors are logged."""
        while self._losses and self._on_drop is not None:
            try:
                self._on_drop(*self._losses.popleft())
            except Exception:  # noqa: BLE001 - the caller's code must not end the queue
                _log.exception("on_drop failed")

    def wait(self, draw: float) -> float:
        """Return the seconds to wait after another failure in a row.

        Args:
            draw: a random number in [0, 1).
        """
        self._failures += 1
        return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._failures - 1, 20)) * (0.5 + draw)

    def abandon(self) -> None:
        """Give up what is left when the queue closes. A record keeps it for the next process."""
        for entry in (*self._sent, *self._waiting):
            if self._record is None:
                self._lose(entry, "dropped", "closed")
        if self._record is None:
            self._sent, self._waiting = [], deque()

    def _count(self, entry: Entry, result: Feedback | ProblemError) -> None:
        if isinstance(result, Feedback):
            self._counts["duplicates" if result.status == "duplicate" else "recorded"] += 1
        elif result.slug == "feedback-conflict":
            self._lose(entry, "conflicts", result.slug, known=False)
        else:
            self._lose(entry, "expired" if result.slug in _TOO_LATE else "refused", result.slug, known=False)

    def _lose(self, entry: Entry, count: str, reason: str, *, known: bool = True) -> None:
        self._counts[count] += 1
        if known:
            self._forget([entry.number])
        if self._on_drop is not None:
            self._losses.append((entry.item, reason))

    def _forget(self, numbers: Sequence[int]) -> None:
        if self._record is not None and numbers:
            self._record.remove(numbers)

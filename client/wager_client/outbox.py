"""The contents of a feedback queue: waiting feedback, sent feedback, and results. Uses no threads and no network.

New feedback, feedback that failed, and feedback that may have made a whole request fail form three pools, which are
sent in separate requests. In each pool, every model has a lane, whose waits grow while it makes no progress. Therefore,
a damaged model does not delay other models, and a damaged prediction does not delay other predictions.
"""

import heapq
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, Protocol

from wager_client import checks
from wager_client.errors import ProblemError
from wager_client.operations import FeedbackItem
from wager_client.results import Feedback

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0  # mean seconds between attempts
_HURRIED_WAIT = 0.2  # maximum seconds between two attempts while a caller waits for an empty queue
_LONGEST_ASKED = 60.0  # a Retry-After header delays the queue by at most this many seconds


class Entry(NamedTuple):
    """Feedback in the queue."""

    number: int
    item: FeedbackItem

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.item.prediction_id).partition(":")[0]


class Backoff:
    """The time of the next attempt. The mean wait doubles with each consecutive failure, up to `_LONGEST_WAIT`."""

    def __init__(self) -> None:
        self.failures, self.due, self._asked = 0, -math.inf, -math.inf

    def fail(self, now: float, draw: float, asked: float = 0.0) -> None:
        """Schedule the next attempt after a failure at `now`, at least `asked` seconds later.

        An `asked` of more than 60 seconds counts as 60. `draw` is a random number in [0, 1).
        """
        self.failures += 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self.failures - 1, 20)) * (0.5 + draw)
        self._asked = now + min(asked, _LONGEST_ASKED)
        self.due = max(now + wait, self._asked)

    def hurry(self, now: float) -> None:
        """Shorten the wait to at most `_HURRIED_WAIT` from now, but not to less than the service asked for."""
        self.due = max(min(self.due, now + _HURRIED_WAIT), self._asked)

    def reset(self) -> None:
        """Stop waiting, after a success."""
        self.failures, self.due, self._asked = 0, -math.inf, -math.inf


class Lane(Backoff):
    """Feedback of one model, in the order of sending.

    `hopeless` means that its last failure is not expected to pass within seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[Entry] = deque()
        self.hopeless = False

    def reset(self) -> None:
        """Stop waiting, and clear `hopeless`, after a success."""
        super().reset()
        self.hopeless = False


class Pool(Backoff):
    """The lanes of all models, which share requests of at most `batch` entries.

    They wait together after a whole request failed. `lanes` ends with those used most recently. `room` is the
    maximum size of the next request. It is smaller than `batch` after a request that may have failed because of its
    items.
    """

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.lanes: dict[str, Lane] = {}
        self.room = self._batch = batch

    def lane(self, model: str) -> Lane:
        """Return the lane of a model; create it if there is none."""
        return self.lanes.setdefault(model, Lane())

    def take(self, now: float) -> list[Entry]:
        """Remove and return the entries of the next request; none if nothing is due.

        Each due lane first gives an equal share; then the lanes fill what is left of the request.
        """
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
        """Put entries back at the front of their lanes."""
        for entry in reversed(entries):
            self.lane(entry.model).entries.appendleft(entry)

    def grow(self) -> None:
        """Increase the size of the next request, after a success."""
        self.room = min(self._batch, self.room + 1 + self._batch // 20)

    def next(self) -> float:
        """Return the time at which a request is due; infinity without entries."""
        return max(self.due, min((lane.due for lane in self.lanes.values() if lane.entries), default=math.inf))


class DropOrder:
    """The lanes from which a full queue drops entries, lowest rank first. Only `pop` and `add` may change a rank."""

    def __init__(self, lanes: Iterable[Lane], rank: Callable[[deque[Entry]], int]) -> None:
        self._rank = rank
        self._heap = [(rank(lane.entries), lane.entries) for lane in lanes if lane.entries]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, lane: Lane) -> None:
        """Add a lane that had no entries."""
        heapq.heappush(self._heap, (self._rank(lane.entries), lane.entries))

    def pop(self) -> Entry:
        """Remove and return the first entry of the lane with the lowest rank."""
        entries = self._heap[0][1]
        entry = entries.popleft()
        if entries:
            heapq.heapreplace(self._heap, (self._rank(entries), entries))
        else:
            heapq.heappop(self._heap)
        return entry


Drop = Literal["oldest", "newest"]

OnDrop = Callable[[FeedbackItem, str], None]
"""A function of feedback that will not be recorded, and the reason: `full`, `closed`, or the slug of a problem."""

_log = logging.getLogger(__name__)

_TOO_LATE = frozenset({"prediction-expired", "prediction-not-found", "model-not-found"})  # reported as `expired`
_TOO_MUCH = frozenset({400, 413, 422})  # statuses of a request that is refused because of its items
_LATER = frozenset({401, 403, 408, 421, 429})  # statuses below 500 after which the same feedback may be accepted
_SOON = frozenset({408, 429, 502, 503, 504, 507})  # statuses of failures that may pass within seconds


def may_succeed(problem: ProblemError) -> bool:
    """Check whether refused feedback may be accepted later, unchanged."""
    return problem.status >= 500 or problem.status in _LATER or problem.slug == "not-activated"


class Record(Protocol):
    """Keeps the contents of a queue for the next process. `Spool` implements it with a file."""

    def add(self, entry: Entry) -> None:
        """Store an entry."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove entries."""

    def reject(self, refused: Sequence[tuple[Entry, ProblemError]]) -> None:
        """Keep a copy of permanently refused entries. `remove` is called for them afterwards."""


@dataclass(frozen=True)
class Report:
    """The results of all feedback that was added to a queue."""

    recorded: int = 0  # recorded by the service: as a round at once, or when the window closes
    duplicates: int = 0  # recorded before, for example if an earlier answer was lost
    conflicts: int = 0  # refused, because the prediction has other feedback
    expired: int = 0  # refused, because the window has closed, or the prediction or its model no longer exists
    refused: int = 0  # refused for another reason
    dropped: int = 0  # not sent, because the queue was full or closed
    ignored: int = 0  # not sent, because the prediction was a default answer
    pending: int = 0  # still in the queue
    damaged: int = 0  # unreadable lines of the queue's file, which were moved to a second file
    last_error: str | None = None  # of a request or of an item to send again; None once nothing fails

    @property
    def lost(self) -> int:
        """The number of items that were not recorded and will not be sent again."""
        return self.conflicts + self.expired + self.refused + self.dropped


class Outbox:
    """The contents of a queue: at most `size` entries, of which a request sends at most `batch`.

    A full queue drops entries as `FeedbackQueue` describes for its argument `drop`. `call_back` calls `on_drop` for
    each entry that will not be recorded. `now` returns seconds of a monotonic clock, `draw` a random
    number in [0, 1). `record` keeps the entries for the next process; `restored` contains those that an earlier process
    left in it, and `damaged` is the number of its unreadable lines. `pending` counts entries without a final result.
    Raises `ValueError` or `TypeError` for an invalid argument.
    """

    def __init__(
        self,
        size: int,
        batch: int,
        drop: Drop,
        on_drop: OnDrop | None = None,
        *,
        now: Callable[[], float],
        draw: Callable[[], float],
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
        self._size, self._drop, self._on_drop, self._record = size, drop, on_drop, record
        self._now, self._draw = now, draw
        self._fresh, self._failed, self._alone = self._pools = Pool(batch), Pool(batch), Pool(1)
        self._fresh.put_back(restored)
        self._sent: list[Entry] = []
        self._drops: tuple[DropOrder, DropOrder] | None = None  # computed when needed, valid until the next request
        self._sending = self._fresh  # the pool of the entries in the current or last request
        self._next, self._waiters, self.pending = -math.inf, 0, len(restored)
        self._counts = dict.fromkeys(("recorded", "duplicates", "conflicts", "expired", "refused", "dropped"), 0)
        self._ignored, self._damaged, self._last_error = 0, damaged, ""
        self._losses: deque[tuple[FeedbackItem, str]] = deque()
        self._number = max((entry.number for entry in restored), default=0)

    @property
    def finished(self) -> bool:
        """Whether nothing is in flight, and no waiting entry may succeed within seconds."""
        return not self._sent and all(lane.hopeless or not lane.entries for lane in self._lanes())

    def report(self) -> Report:
        """Return the results so far."""
        more = {"ignored": self._ignored, "pending": self.pending, "damaged": self._damaged}
        return Report(**self._counts, **more, last_error=self._last_error or None)

    def add(self, item: FeedbackItem) -> bool:
        """Add feedback; return whether it is in the queue. Raises `ValueError` or `TypeError` if it cannot be JSON."""
        if item.prediction_id is None:
            self._ignored += 1
            return False
        json.dumps(item.body(), allow_nan=False)
        self._number += 1
        entry = Entry(self._number, item)
        if self.pending >= self._size and not self._make_room(entry.model):
            self._lose(entry, "dropped", "full")
            return False
        lane = self._fresh.lane(entry.model)
        lane.entries.append(entry)
        if self._drops is not None and len(lane.entries) == 1:
            self._drops[1].add(lane)
        self.pending += 1
        self._next = min(self._next, max(lane.due, self._fresh.due))
        if self._record is not None:
            self._record.add(entry)
        return True

    def _make_room(self, model: str) -> bool:
        """Drop a waiting entry, if `drop` allows this for a new entry of the model; return whether one was dropped."""
        failed, fresh = self._drops = self._drops or self._drop_orders()
        if failed and (self._drop == "oldest" or not self._has_failed(model)):
            entry = failed.pop()
        elif fresh and self._drop == "oldest":
            entry = fresh.pop()
        else:
            return False
        self._lose(entry, "dropped", "full")
        self._forget([entry])
        return True

    def _has_failed(self, model: str) -> bool:
        lanes = [pool.lanes.get(model) for pool in (self._failed, self._alone)]
        retried = () if self._sending is self._fresh else self._sent
        return any(lane and lane.entries for lane in lanes) or any(entry.model == model for entry in retried)

    def _drop_orders(self) -> tuple[DropOrder, DropOrder]:
        """Return two orders of dropping: failed feedback, longest lane first; and new feedback, oldest entry first."""
        failed = chain(self._failed.lanes.values(), self._alone.lanes.values())
        fresh = self._fresh.lanes.values()
        return DropOrder(failed, lambda entries: -len(entries)), DropOrder(fresh, lambda entries: entries[0].number)

    def take(self) -> list[FeedbackItem]:
        """Return the items of the next request; none if nothing is due. They are in flight until `settle` is called.

        Pools take turns, but while a caller waits for an empty queue, new feedback always goes first.
        """
        now = self._now()
        if now < self._next:
            return []
        turn = 0 if self._waiters else self._pools.index(self._sending) + 1
        for pool in (*self._pools[turn:], *self._pools[:turn]):
            self._sent = pool.take(now)
            if self._sent:
                self._sending, self._drops = pool, None
                return [entry.item for entry in self._sent]
        self._next = min(pool.next() for pool in self._pools)
        return []

    def wait(self) -> float | None:
        """After `take` returned no items, return the seconds until an entry is due; None if the queue is empty."""
        return None if self._next == math.inf else max(0.0, self._next - self._now())

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Shorten all waits while a caller waits for an empty queue, and give hopeless lanes another chance."""
        self._waiters += 1
        now, self._next = self._now(), -math.inf
        for each in (*self._pools, *self._lanes()):
            each.hurry(now)
        for lane in self._lanes():
            lane.hopeless = False
        try:
            yield
        finally:
            self._waiters -= 1

    def settle(self, outcome: Sequence[Feedback | ProblemError] | Exception) -> None:
        """Process the results of the sent items, or the error of the whole request."""
        sent, self._sent, self._drops = self._sent, [], None
        if isinstance(outcome, Exception):
            self._note_error(sent, outcome)
        else:
            self._note_results(sent, outcome)
        for pool in (self._alone, self._failed, self._fresh):  # an empty fresh lane of a failing model stays: it waits
            kept = self._failed.lanes if pool is self._fresh else {}
            pool.lanes = {name: lane for name, lane in pool.lanes.items() if lane.entries or name in kept}
        if not isinstance(outcome, Exception) and not self._failed.lanes and not self._alone.lanes:
            self._last_error = ""
        self._next = -math.inf

    def _note_results(self, sent: Sequence[Entry], results: Sequence[Feedback | ProblemError]) -> None:
        final: list[tuple[Entry, Feedback | ProblemError]] = []
        again: dict[str, list[tuple[Entry, ProblemError]]] = {}
        for entry, result in zip(sent, results, strict=True):
            if isinstance(result, ProblemError) and may_succeed(result):
                again.setdefault(entry.model, []).append((entry, result))
                self._last_error = str(result)
            else:
                final.append((entry, result))
        self._conclude(final)
        progress = {entry.model for entry, _ in final}
        self._recover(progress)
        for model, failed in again.items():
            hopeless = all(problem.status not in _SOON for _, problem in failed)
            self._hold(model, [entry for entry, _ in failed], stuck=model not in progress, hopeless=hopeless)

    def _note_error(self, sent: Sequence[Entry], error: Exception) -> None:
        """Put the sent entries back. If one of them may have caused the error, the next request has half as many.

        A single entry that may have caused it is refused for good or, if it may succeed later, sent alone from then on.
        """
        pool, self._last_error = self._sending, str(error)
        problem = error if isinstance(error, ProblemError) else None
        refused = problem is not None and problem.status in _TOO_MUCH
        suspect = refused or getattr(error, "maybe_done", True)
        if suspect and len(sent) == 1:
            if problem is not None and refused:
                return self._conclude([(sent[0], problem)])
            self._alone.lane(sent[0].model).entries.extend(sent)
        else:
            pool.put_back(sent)
        if suspect and len(sent) > 1:
            pool.room = len(sent) // 2
            pool.reset()  # search for the entry without growing waits
        if not refused:
            self._delay(pool, 0.0 if problem is None else problem.retry_after or 0.0)
        return None

    def _hold(self, model: str, entries: Sequence[Entry], *, stuck: bool, hopeless: bool) -> None:
        """Move entries to the failed pool, and delay their lane there.

        `stuck` means that no other entry of the model succeeded: the lane that the entries came from is delayed, too.
        """
        lane = self._failed.lane(model)
        lane.entries.extend(entries)
        lane.hopeless = hopeless
        if stuck:
            origin = self._sending.lane(model)
            origin.hopeless = hopeless
            self._delay(origin)
        if not lane.failures:
            self._delay(lane)

    def _delay(self, what: Backoff, asked: float = 0.0) -> None:
        what.fail(self._now(), self._draw(), asked)
        if self._waiters:
            what.hurry(self._now())

    def _recover(self, progress: Iterable[str]) -> None:
        """After an answer, end the waits of models that work again, or all waits if the whole service works again."""
        pool = self._sending
        pool.grow()
        if pool.failures:
            for each in (*self._pools, *self._lanes()):
                each.reset()
        for model in progress:
            if model in pool.lanes and pool.lanes[model].failures:
                for each in (self._fresh, self._failed):
                    each.lane(model).reset()

    def call_back(self) -> None:
        """Call `on_drop` for the entries lost since the last call; log its errors. The caller must not hold a lock."""
        while self._losses and self._on_drop is not None:
            try:
                self._on_drop(*self._losses.popleft())
            except Exception:  # noqa: BLE001 - the caller's code must not end the queue
                _log.exception("on_drop failed")

    def abandon(self) -> None:
        """Give up the remaining entries when the queue closes. A record keeps them for the next process."""
        if self._record is None:
            for entry in (*self._sent, *chain.from_iterable(lane.entries for lane in self._lanes())):
                self._lose(entry, "dropped", "closed")
            self.pending = 0

    def _lanes(self) -> Iterator[Lane]:
        return chain.from_iterable(pool.lanes.values() for pool in self._pools)

    def _conclude(self, results: Sequence[tuple[Entry, Feedback | ProblemError]]) -> None:
        refused = [(entry, result) for entry, result in results if isinstance(result, ProblemError)]
        for entry, problem in refused:
            late = "expired" if problem.slug in _TOO_LATE else "refused"
            self._lose(entry, "conflicts" if problem.slug == "feedback-conflict" else late, problem.slug)
        for _, result in results:
            if isinstance(result, Feedback):
                self._counts["duplicates" if result.status == "duplicate" else "recorded"] += 1
        if self._record is not None and refused:
            self._record.reject(refused)
        self._forget([entry for entry, _ in results])

    def _lose(self, entry: Entry, count: str, reason: str) -> None:
        self._counts[count] += 1
        if self._on_drop is not None:
            self._losses.append((entry.item, reason))

    def _forget(self, entries: Sequence[Entry]) -> None:
        self.pending -= len(entries)
        if self._record is not None and entries:
            self._record.remove([entry.number for entry in entries])

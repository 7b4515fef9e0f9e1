"""`FeedbackQueue`, which sends feedback in a thread of the process, and survives outages of the service."""

import atexit
import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from wager_client import checks
from wager_client.client import Wager
from wager_client.errors import ProblemError
from wager_client.operations import FeedbackItem, id_of
from wager_client.outbox import Drop, OnDrop, Outbox, Report
from wager_client.results import Feedback, Prediction, Slot
from wager_client.retries import LONGEST_ATTEMPT
from wager_client.spool import Spool, opened

HURRIED_WAIT = 0.2
"""Maximum seconds between two attempts while someone waits for the queue."""

_EXIT_SECONDS = 5.0
_TOO_MUCH = frozenset({400, 413, 422})
"""Statuses of a request that is refused because of its items."""


def apply(outbox: Outbox, outcome: list[Feedback | ProblemError] | Exception) -> float:
    """Note the outcome of a request; return the seconds to wait before the next one.

    Args:
        outbox: the items of the request are its sent ones.
        outcome: the results, or the error of the whole request.
    """
    if isinstance(outcome, ProblemError) and outcome.status in _TOO_MUCH:
        outbox.shrink(outcome)
        return 0.0
    if isinstance(outcome, Exception):
        outbox.put_back(str(outcome))
        return outbox.wait(random.random())
    return outbox.wait(random.random()) if outbox.settle(outcome) else 0.0


def contents(
    size: int, batch: int, drop: Drop, on_drop: OnDrop | None, spool: Path | str | None, *, fsync: bool
) -> tuple[Outbox, Spool | None]:
    """Return the contents of a new queue and its file. The arguments are checked before the file is opened.

    Raises:
        ValueError: if an argument is out of range, or the file is not one of a queue.
        TypeError: if an argument has another type.
        SpoolInUseError: if another queue uses the file.
        OSError: if the file cannot be opened.
    """
    outbox = Outbox(size, batch, drop, on_drop)
    file = opened(spool, fsync=fsync)
    if file is None:
        return outbox, None
    return Outbox(size, batch, drop, on_drop, record=file, restored=file.restore(), damaged=file.damaged), file


def refuse_fork(pid: int) -> None:
    """Refuse a queue that another process made: its thread or event loop does not exist here, so nothing is sent.

    Args:
        pid: of the process that made the queue.

    Raises:
        RuntimeError: if it is not this process.
    """
    if os.getpid() != pid:
        raise RuntimeError("the feedback queue was made before a fork, and sends nothing here; make one after the fork")


class FeedbackQueue:
    """A bounded queue of feedback, which a thread sends in batches.

    While the service is away, feedback waits, and the thread tries again with growing waits. As feedback is idempotent,
    repeated sending counts once. Make the queue after a fork, and close it before the client.

    Args:
        client: sends the feedback. Its `timeout`, at most 5 seconds, limits each request.
        size: maximum feedback in the queue.
        batch: maximum feedback of one request.
        drop: what goes if the queue is full: the oldest feedback that waits, or the newest, which is the one to add.
        on_drop: called with the item and the reason, in any thread, for feedback that is not recorded.
        spool: a file that remembers the queue, so that the next process continues it; None for none.
        fsync: whether each write to the file waits for the disk.

    Raises:
        ValueError: from the constructor, if an argument is out of range, or the file is not one of a queue.
        TypeError: from the constructor, if an argument has another type.
        SpoolInUseError: from the constructor, if another queue uses the file.
        OSError: from the constructor, if the file cannot be opened.
    """

    def __init__(
        self,
        client: Wager,
        *,
        size: int = 10_000,
        batch: int = 200,
        drop: Drop = "oldest",
        on_drop: OnDrop | None = None,
        spool: Path | str | None = None,
        fsync: bool = False,
    ) -> None:
        if not isinstance(client, Wager):
            raise checks.wrong("client", client, "a Wager; AsyncFeedbackQueue takes an AsyncWager")
        self._client = client.with_options(max_retries=0, timeout=min(client.timeout, LONGEST_ATTEMPT))
        self._outbox, self._spool = contents(size, batch, drop, on_drop, spool, fsync=fsync)
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._closing = self._stopped = self._hurried = False
        self._thread = threading.Thread(target=self._run, name="wager-feedback", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(
        self,
        prediction: Prediction | Slot | str,
        *,
        correct: bool | None = None,
        reward: float | None = None,
        true_label: str | None = None,
        true_labels: Sequence[str] | None = None,
    ) -> bool:
        """Add feedback without waiting; return whether it is in the queue. Feedback for a default answer is ignored.

        Raises:
            RuntimeError: if the queue is closed, or this process is a fork of the one that made it.
            ValueError: if the reward is NaN or infinite.
            TypeError: if it is for no prediction, slot or id, or JSON cannot express a value.
        """
        refuse_fork(self._pid)
        item = FeedbackItem(id_of(prediction), correct, reward, true_label, true_labels)
        with self._changed:
            if self._closing:
                raise RuntimeError("the feedback queue is closed")
            added = self._outbox.add(item)
            self._changed.notify_all()
        self._outbox.call_back()
        return added

    def report(self) -> Report:
        """Return what became of the feedback so far."""
        if os.getpid() != self._pid:
            return self._outbox.report()
        with self._changed:
            return self._outbox.report()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until the queue is empty; return whether it is.

        Args:
            timeout: maximum seconds to wait.
        """
        refuse_fork(self._pid)
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._outbox.pending, timeout)

    def close(self, timeout: float = 10.0) -> Report:
        """Send what waits, then stop; return what became of the feedback. A second call changes nothing.

        Args:
            timeout: maximum seconds to wait. What is left then is dropped, or stays in the file.
        """
        if os.getpid() != self._pid:  # a fork, whose copy of the lock may never be free
            return self._outbox.report()
        with self._changed:
            self._closing = self._hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or not self._outbox.pending, timeout)
            if not self._stopped:
                self._stopped = True
                self._outbox.abandon()
                if self._spool is not None:
                    self._spool.close()
            self._changed.notify_all()
        atexit.unregister(self._close_at_exit)
        self._outbox.call_back()
        return self.report()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._outbox.has_waiting or self._closing)
                if self._stopped or not self._outbox.has_waiting:
                    return
                items = self._outbox.take()
            wait = self._send(items)
            self._outbox.call_back()
            self._pause(wait)

    def _send(self, items: list[FeedbackItem]) -> float:
        """Send items; return the seconds to wait before the next request."""
        outcome: list[Feedback | ProblemError] | Exception
        try:
            outcome = self._client.feedback_batch(items)
        except Exception as error:  # noqa: BLE001 - the caller's HTTP client may raise anything
            outcome = error
        with self._changed:
            if self._stopped:
                return 0.0
            wait = apply(self._outbox, outcome)
            self._changed.notify_all()
            return wait

    def _pause(self, seconds: float) -> None:
        """Wait, but not long if `flush` or `close` waits for the queue."""
        until = time.monotonic() + seconds
        soon = time.monotonic() + HURRIED_WAIT
        with self._changed:
            self._hurried = self._hurried and self._outbox.pending > 0
            while (left := (min(until, soon) if self._hurried else until) - time.monotonic()) > 0:
                if self._stopped:
                    return
                self._changed.wait(left)

    def _close_at_exit(self) -> None:
        self.close(_EXIT_SECONDS)

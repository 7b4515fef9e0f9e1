"""`FeedbackQueue` and `AsyncFeedbackQueue`, which send feedback in the background and survive outages."""

import asyncio
import atexit
import contextlib
import os
import random
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from wager_client import checks
from wager_client.async_client import AsyncWager
from wager_client.client import Wager
from wager_client.errors import ProblemError
from wager_client.operations import FeedbackItem, id_of
from wager_client.outbox import Drop, OnDrop, Outbox, Report
from wager_client.results import Feedback, Prediction, Slot
from wager_client.sending import LONGEST_ATTEMPT
from wager_client.spool import Spool, opened

_EXIT_SECONDS = 5.0  # the longest that an exiting process waits for each open queue


def contents(
    size: int, batch: int, drop: Drop, on_drop: OnDrop | None, spool: Path | str | None, *, fsync: bool
) -> tuple[Outbox, Spool | None]:
    """Return the outbox and the spool, if any, of a new queue. Arguments are checked before the file is opened."""
    make = partial(Outbox, size, batch, drop, on_drop, now=time.monotonic, draw=random.random)
    outbox, file = make(), opened(spool, fsync=fsync)
    return (outbox if file is None else make(record=file, restored=file.restore(), damaged=file.damaged)), file


def refuse_fork(pid: int) -> None:
    """Raise `RuntimeError` if another process created the queue: its thread or event loop does not exist here."""
    if os.getpid() != pid:
        raise RuntimeError(
            "the feedback queue was created before a fork and cannot send in this process; create one after the fork"
        )


class FeedbackQueue:
    """A bounded queue of feedback, which a thread sends in batches.

    While the service is away, feedback waits, and the thread retries at growing intervals. If only one model fails,
    only its feedback waits. Feedback that is sent twice counts once. Create the queue after a fork, and close it before
    the client.

    Args:
        client: sends the feedback. A request takes at most its `timeout`, and at most 5 seconds.
        size: maximum items in the queue.
        batch: maximum items per request.
        drop: what a full queue drops: "oldest", the oldest waiting item, or "newest", the item to add. A full queue
            first drops items that have failed. With "newest", it does so only if the new item's model has no failed
            items; otherwise it drops the new item.
        on_drop: called with each item that will not be recorded, and the reason, in the queue's thread or a caller's.
        spool: a file that stores the queue, so that the next process continues it; None to store nothing. Refused
            feedback is stored in a second file next to it.
        fsync: whether each write to the file waits for the disk.

    Raises:
        ValueError: from the constructor, if an argument is out of range, or the file is not a queue's file.
        TypeError: from the constructor, if an argument has the wrong type.
        SpoolInUseError: from the constructor, if another queue uses the file.
        OSError: from the constructor, if the file cannot be opened or locked.
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
        self._closing = self._stopped = False
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
        """Add feedback, and return whether it is in the queue. Does not wait, except for the disk with `fsync`.

        Ignores feedback for a default answer. Raises `RuntimeError` after `close` or a fork; `ValueError` for NaN or an
        infinite reward; `TypeError` if the first argument is not a prediction, slot or id, or a value is not JSON.
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
        """Return the results so far."""
        if os.getpid() != self._pid:
            return self._outbox.report()
        with self._changed:
            return self._outbox.report()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait up to `timeout` seconds for the queue to empty, and return whether it is empty.

        Return early if the failures of all remaining items are unlikely to pass within seconds.
        """
        refuse_fork(self._pid)
        with self._changed:
            self._wait(timeout)
            return not self._outbox.pending

    def close(self, timeout: float = 10.0) -> Report:
        """Send waiting feedback as `flush` does, then stop. Return the report.

        The rest stays in the file for the next process; without a file, it is dropped. In a fork, only the report is
        returned.
        """
        if os.getpid() != self._pid:  # in a fork, the copy of the lock may never be free
            return self._outbox.report()
        with self._changed:
            self._closing = True
            self._wait(timeout)
            if not self._stopped:
                self._stopped = True
                self._outbox.abandon()
                if self._spool is not None:
                    self._spool.close()
            self._changed.notify_all()
        atexit.unregister(self._close_at_exit)
        self._outbox.call_back()
        return self.report()

    def _wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until the queue is finished or closed. The caller must own the lock."""
        with self._outbox.hurried():
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or self._outbox.finished, timeout)

    def _run(self) -> None:
        while (items := self._taken()) is not None:
            outcome = self._outcome(items)
            with self._changed:
                if not self._stopped:
                    self._outbox.settle(outcome)
                    self._changed.notify_all()
            self._outbox.call_back()

    def _taken(self) -> list[FeedbackItem] | None:
        """Wait for the items of the next request; return None when the queue is closed."""
        with self._changed:
            while not self._stopped:
                if items := self._outbox.take():
                    return items
                self._changed.wait(self._outbox.wait())
            return None

    def _outcome(self, items: list[FeedbackItem]) -> list[Feedback | ProblemError] | Exception:
        try:
            return self._client.feedback_batch(items)
        except Exception as error:  # noqa: BLE001 - the caller's HTTP client may raise anything
            return error

    def _close_at_exit(self) -> None:
        self.close(_EXIT_SECONDS)


class AsyncFeedbackQueue:
    """A bounded queue of feedback, which a task sends in batches. Create and use it in one event loop.

    The constructor has the arguments and errors of `FeedbackQueue`, but takes an `AsyncWager`. It also raises
    `RuntimeError` if no event loop is running. `on_drop` is called in the event loop. Each write to the file blocks the
    event loop; with `fsync`, it does so until the data is on the disk.
    """

    def __init__(
        self,
        client: AsyncWager,
        *,
        size: int = 10_000,
        batch: int = 200,
        drop: Drop = "oldest",
        on_drop: OnDrop | None = None,
        spool: Path | str | None = None,
        fsync: bool = False,
    ) -> None:
        if not isinstance(client, AsyncWager):
            raise checks.wrong("client", client, "an AsyncWager; FeedbackQueue takes a Wager")
        self._loop = asyncio.get_running_loop()  # fails before a file is opened
        self._client = client.with_options(max_retries=0, timeout=min(client.timeout, LONGEST_ATTEMPT))
        self._outbox, self._spool = contents(size, batch, drop, on_drop, spool, fsync=fsync)
        self._pid = os.getpid()
        self._news, self._settled = asyncio.Event(), asyncio.Event()
        self._closing = self._stopped = False
        self._task = asyncio.create_task(self._run(), name="wager-feedback")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def put(
        self,
        prediction: Prediction | Slot | str,
        *,
        correct: bool | None = None,
        reward: float | None = None,
        true_label: str | None = None,
        true_labels: Sequence[str] | None = None,
    ) -> bool:
        """Add feedback as `FeedbackQueue.put` does. Also raises `RuntimeError` outside the queue's event loop."""
        self._refuse_elsewhere()
        item = FeedbackItem(id_of(prediction), correct, reward, true_label, true_labels)
        if self._closing:
            raise RuntimeError("the feedback queue is closed")
        added = self._outbox.add(item)
        self._news.set()
        self._outbox.call_back()
        return added

    def report(self) -> Report:
        """Return the results so far."""
        return self._outbox.report()

    async def flush(self, timeout: float = 10.0) -> bool:
        """Wait as `FeedbackQueue.flush` does; return whether the queue is empty."""
        self._refuse_elsewhere()
        with self._outbox.hurried(), contextlib.suppress(TimeoutError):
            self._news.set()
            async with asyncio.timeout(timeout):
                while not (self._stopped or self._outbox.finished):
                    self._settled.clear()
                    await self._settled.wait()
        return not self._outbox.pending

    async def close(self, timeout: float = 10.0) -> Report:
        """Send waiting feedback, then stop, and return the report, as `FeedbackQueue.close` does."""
        if self._stopped or os.getpid() != self._pid:
            return self.report()
        self._refuse_elsewhere()
        self._closing = True
        await self.flush(timeout)
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._stopped:  # another call may have finished first
            self._stopped = True
            self._outbox.abandon()
            if self._spool is not None:
                self._spool.close()
            self._settled.set()
        self._outbox.call_back()
        return self.report()

    def _refuse_elsewhere(self) -> None:
        """Refuse use outside the queue's event loop: a call from elsewhere would not wake up the queue's task."""
        refuse_fork(self._pid)
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:  # no event loop runs here, as in another thread
            here = None
        if here is not self._loop:
            raise RuntimeError("the feedback queue belongs to the event loop that made it; make one in each event loop")

    async def _run(self) -> None:
        while True:
            while not (items := self._outbox.take()):
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._outbox.wait()):
                        await self._news.wait()
            self._outbox.settle(await self._outcome(items))
            self._settled.set()
            self._outbox.call_back()

    async def _outcome(self, items: list[FeedbackItem]) -> list[Feedback | ProblemError] | Exception:
        try:
            return await self._client.feedback_batch(items)
        except Exception as error:  # noqa: BLE001 - the caller's HTTP client may raise anything
            return error

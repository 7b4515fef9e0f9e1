"""`AsyncFeedbackQueue`, which sends feedback in a task of the event loop. See `FeedbackQueue`."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from wager_client import checks
from wager_client.async_client import AsyncWager
from wager_client.errors import ProblemError
from wager_client.operations import FeedbackItem, id_of
from wager_client.outbox import Drop, OnDrop, Report
from wager_client.queues import contents, refuse_fork
from wager_client.results import Feedback, Prediction, Slot
from wager_client.retries import LONGEST_ATTEMPT


class AsyncFeedbackQueue:
    """A bounded queue of feedback, which a task sends in batches. Make and use it in one event loop.

    Args:
        client: sends the feedback. Its `timeout`, at most 5 seconds, limits each request.
        size: maximum feedback in the queue.
        batch: maximum feedback of one request.
        drop: what goes if the queue is full: the oldest feedback that waits, or the newest, which is the one to add. If
            feedback of a model or prediction that fails waits, that goes first.
        on_drop: called with the item and the reason, in the event loop, for feedback that is not recorded.
        spool: a file that remembers the queue, so that the next process continues it; None for none. Beside it is kept
            what the service refuses.
        fsync: whether each write to the file waits for the disk. Each blocks the event loop.

    Raises:
        ValueError: from the constructor, if an argument is out of range, or the file is not one of a queue.
        TypeError: from the constructor, if an argument has another type.
        SpoolInUseError: from the constructor, if another queue uses the file.
        OSError: from the constructor, if the file cannot be opened.
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
        self._loop = asyncio.get_running_loop()  # before a file is opened
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
        """Add feedback without waiting; return whether it is in the queue. Feedback for a default answer is ignored.

        Raises:
            RuntimeError: if the queue is closed, or this is not the event loop and process that made it.
            ValueError: if the reward is NaN or infinite.
            TypeError: if it is for no prediction, slot or id, or JSON cannot express a value.
        """
        self._refuse_elsewhere()
        item = FeedbackItem(id_of(prediction), correct, reward, true_label, true_labels)
        if self._closing:
            raise RuntimeError("the feedback queue is closed")
        added = self._outbox.add(item)
        self._news.set()
        self._outbox.call_back()
        return added

    def report(self) -> Report:
        """Return what became of the feedback so far."""
        return self._outbox.report()

    async def flush(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same as in FeedbackQueue
        """Wait until the queue is empty; return whether it is.

        Args:
            timeout: maximum seconds to wait. If all that is left was tried again, and fails for a reason that does not
                pass within seconds, such as damage, the wait ends.

        Raises:
            RuntimeError: if this is not the event loop and process that made the queue.
        """
        self._refuse_elsewhere()
        with self._outbox.hurried(), contextlib.suppress(TimeoutError):
            self._news.set()
            async with asyncio.timeout(timeout):
                while not self._outbox.finished:
                    self._settled.clear()
                    await self._settled.wait()
        return not self._outbox.pending

    async def close(self, timeout: float = 10.0) -> Report:  # noqa: ASYNC109 - the same as in FeedbackQueue
        """Send what waits, then stop; return what became of the feedback. A second call changes nothing.

        Args:
            timeout: maximum seconds to wait, as in `flush`. What is left then is dropped, or stays in the file.

        Raises:
            RuntimeError: if this is not the event loop that made the queue.
        """
        if self._stopped or os.getpid() != self._pid:
            return self.report()
        self._refuse_elsewhere()
        self._closing = True
        await self.flush(timeout)
        self._task.cancel()
        await asyncio.wait([self._task])
        self._stopped = True
        self._outbox.abandon()
        if self._spool is not None:
            self._spool.close()
        self._outbox.call_back()
        return self.report()

    def _refuse_elsewhere(self) -> None:
        """Refuse the use outside of the event loop that made the queue: its task is there, and would not wake up."""
        refuse_fork(self._pid)
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:  # none, as in another thread
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
        """Send items; return their results, or the error of the request."""
        try:
            return await self._client.feedback_batch(items)
        except Exception as error:  # noqa: BLE001 - the caller's HTTP client may raise anything
            return error

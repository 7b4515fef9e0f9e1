"""Threads for long computations. Owners (API keys or models) share them fairly; no thread delays the process's exit.

Kernels release the GIL, so the event loop continues while they run. Callers divide long work into slices. Between two
slices, other work gets a turn, and a cancelled computation ends.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

from service import costs, request_context
from service.errors import StoppingError

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class _Job(NamedTuple):
    owner: str
    charge: Callable[[float], None] | None
    function: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Compute:
    """A pool of `threads` daemon threads, at least 2, each started when needed; one owner uses at most half of them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._share = max(1, threads // 2)
        self._started = 0
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()  # by owner; the first owner is served next
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None ends a thread
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a thread is computing."""
        return bool(self._running.total())

    async def run(self, owner: str, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Run a function in a thread, and return its result. A long function must release the GIL.

        Raises the function's error, or `StoppingError` after `close`.

        In a request with an API key, the key replaces `owner`, so that all its requests count as those of one owner,
        and the processor time is charged to the key.
        """
        if self._closed:
            raise StoppingError("this worker is stopping")
        loop = asyncio.get_running_loop()
        notes, charge = request_context.current.get(), None
        if notes is not None and notes.key_id is not None:
            owner, charge = f"key {notes.key_id}", notes.charge
        job = _Job(owner, charge, function, args, loop, loop.create_future())
        self._waiting.setdefault(owner, deque()).append(job)
        self._dispatch()
        try:
            result: _T = await job.future
        finally:
            del job  # an error refers to this frame: the cycle would keep the job until a full collection
        return result

    async def run_in_thread_if_costly(
        self, cost: int, owner: str, function: Callable[[*_Args], _T], *args: *_Args
    ) -> _T:
        """Run a function that costs `cost` multiply-adds: in the event loop if cheap, else in a thread."""
        if cost < costs.INLINE:
            return function(*args)
        return await self.run(owner, function, *args)

    def close(self) -> None:
        """Refuse new jobs and fail waiting jobs. The threads end after their running jobs, or with the process."""
        self._closed = True
        for job in [job for jobs in self._waiting.values() for job in jobs]:
            if not job.future.done():
                job.future.set_exception(StoppingError("this worker is stopping"))
        self._waiting.clear()
        for _ in range(self._started):
            self._jobs.put(None)

    def _dispatch(self) -> None:
        for owner in list(self._waiting):
            if self._running.total() >= self._threads:
                return
            if self._running[owner] < self._share:
                self._start(owner)

    def _start(self, owner: str) -> None:
        jobs = self._waiting.pop(owner)
        job = jobs.popleft()
        if jobs:
            self._waiting[owner] = jobs  # after all other owners
        self._running[owner] += 1
        if self._started < min(self._threads, self._running.total()):
            self._started += 1
            threading.Thread(target=self._work, name=f"compute-{self._started}", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
            del job  # an idle thread would keep the job's references alive

    def _do(self, job: _Job) -> None:
        result, error, begun = None, None, time.thread_time()
        try:
            if not job.future.cancelled():
                result = job.function(*job.args)
        except Exception as raised:  # noqa: BLE001  the caller of `run` gets it
            error = raised
        with contextlib.suppress(RuntimeError):  # the event loop has ended, so nothing awaits the result
            job.loop.call_soon_threadsafe(self._done, job, time.thread_time() - begun, result, error)
        del job, result, error  # an error refers to this frame: the cycle would keep the job until a full collection

    def _done(self, job: _Job, seconds: float, result: object, error: Exception | None) -> None:
        if job.charge is not None:
            job.charge(seconds)
        self._running[job.owner] -= 1
        if not self._running[job.owner]:
            del self._running[job.owner]
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        if not self._closed:
            self._dispatch()


def steps_in_slice(cost: int, overhead: int = 0) -> int:
    """Return how many steps, at least 1, a slice should have.

    A step costs `cost`, and each slice costs `overhead` in addition. The steps of a slice cost about `costs.SLICE`, or
    about as much as the overhead, if that is larger.
    """
    return max(1, max(costs.SLICE, overhead) // max(cost, 1))


def slices(n: int, cost: int, overhead: int = 0) -> list[tuple[int, int]]:
    """Divide n steps into slices of `steps_in_slice` steps. Return each slice as (first step, last step + 1)."""
    size = steps_in_slice(cost, overhead)
    return [(start, min(start + size, n)) for start in range(0, n, size)]

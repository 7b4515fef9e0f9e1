"""Coalescing of concurrent items into batches."""

import asyncio
import contextvars
import inspect
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])

ITEMS_AT_ONCE = 512
"""Maximum predictions, or feedback items, per batch. A full batch blocks the event loop for a few milliseconds."""


_TURNS_BETWEEN = 3
"""Turns of the event loop between two batches: the answers of the first are written, then requests that have arrived
are read, then these are submitted. The second batch is larger than without the turns, and an item costs less."""


class _Part(NamedTuple):
    """Items submitted together, which share one future and are never split across batches."""

    items: Sequence[Any]
    handle: Callable[[list[Any]], Awaitable[Sequence[Any]]]  # keeps its object alive until the items are processed
    context: contextvars.Context  # of the submitter
    future: asyncio.Future[Any]
    resolve: Callable[[asyncio.Future[Any], Sequence[Any]], None]


class Batcher(Generic[Item, Result]):
    """Groups items into batches.

    New items queue while a batch runs, and for a moment after it. Batches therefore grow with the load, and a lone item
    does not wait. Further batches run at the same time only if they are full.
    If a batch raises, all its items fail with that error.

    The object of a bound method is kept alive by its items only. Otherwise, an object that owns a batcher would be part
    of a reference cycle, and a dropped session would wait for the garbage collection of old objects, which a worker
    runs rarely.

    Args:
        handle: processes a batch; returns one result per item, in order. An exception among the results is
            raised to the submitter of its item.
        max_items: returns the maximum batch size, at least 1; a method of the same object, or a function.
        at_once: maximum batches that run at the same time, in the order of their items.
        room: as `max_items`, for the size of a batch of items that were not submitted together; by default the same.
    """

    def __init__(
        self,
        handle: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: Callable[[], int],
        at_once: int = 1,
        room: Callable[[], int] | None = None,
    ) -> None:
        self._handle = _reference(handle)
        self._max_items = _reference(max_items)
        self._room = self._max_items if room is None else _reference(room)
        self._at_once = at_once
        self._running = set[asyncio.Task[None]]()
        self._waiting: deque[_Part] = deque()
        self._n_waiting = 0  # items
        self._scheduled = False

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item; return a future of its result."""
        return self._queue([item], _resolve_one)

    async def submit_all(self, items: Sequence[Item]) -> list[Result | Exception]:
        """Return the results of many items, in order; exceptions are returned, not raised."""
        most = self._max_items()()
        starts = range(0, len(items), most)
        parts = [self._queue(items[start : start + most], _resolve_all) for start in starts]
        return [result for part in parts for result in await part]

    @property
    def idle(self) -> bool:
        """Whether no item is queued or in flight."""
        return not self._waiting and not self._running

    def _queue(
        self, items: Sequence[Item], resolve: Callable[[asyncio.Future[Any], Sequence[Any]], None]
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Part(items, self._handle(), contextvars.copy_context(), future, resolve))
        self._n_waiting += len(items)
        if not self._scheduled and self._may_start():
            self._scheduled = True
            loop.call_soon(self._start)  # after the other callbacks of this tick, which may submit more
        return future

    def _may_start(self) -> bool:
        if not self._running:
            return True
        return len(self._running) < self._at_once and self._n_waiting >= self._room()()

    def _start_after(self, turns: int) -> None:
        """Start a batch after turns of the event loop."""
        self._scheduled = True
        if turns:
            asyncio.get_running_loop().call_soon(self._start_after, turns - 1)
        else:
            self._start()

    def _start(self) -> None:
        self._scheduled = False
        while self._waiting and self._may_start():
            batch = self._next_batch()
            task = asyncio.create_task(self._run(batch), context=batch[0].context)
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _next_batch(self) -> list[_Part]:
        """Remove and return the oldest parts that fit into one batch; the first one even if it is larger."""
        batch, room = list[_Part](), self._room()()
        while self._waiting and (not batch or len(self._waiting[0].items) <= room):
            batch.append(self._waiting.popleft())
            room -= len(batch[-1].items)
            self._n_waiting -= len(batch[-1].items)
        return batch

    def _end(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._running.discard(task)
        if not self._scheduled:
            self._start_after(_TURNS_BETWEEN)

    async def _run(self, batch: list[_Part]) -> None:
        items = [item for part in batch for item in part.items]
        try:
            results: Sequence[Result | Exception] = await batch[0].handle(items)
        except Exception as error:  # noqa: BLE001  every waiting submitter must get the error
            results = [error] * len(items)
        finally:
            self._end()
        start = 0
        for part in batch:
            stop = start + len(part.items)
            if not part.future.done():  # done if the submitter was cancelled
                part.resolve(part.future, results[start:stop])
            start = stop


def _reference(function: _Function) -> Callable[[], _Function]:
    """Return a function that returns the given one, without keeping the object of a bound method alive."""
    if not inspect.ismethod(function):
        return lambda: function
    reference = weakref.WeakMethod(function)

    def method() -> _Function:
        found = reference()
        if found is None:
            raise ReferenceError("the owner of a batcher is gone")
        return found

    return method


def _resolve_one(future: asyncio.Future[Any], results: Sequence[Any]) -> None:
    (result,) = results
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _resolve_all(future: asyncio.Future[Any], results: Sequence[Any]) -> None:
    future.set_result(results)

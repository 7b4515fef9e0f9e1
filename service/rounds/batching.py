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
    """Groups items into batches and processes one batch at a time.

    New items queue while a batch runs, and for a moment after it. Batches therefore grow with the load, and a lone item
    does not wait.
    If a batch raises, all its items fail with that error.

    The object of a bound method is kept alive by its items only. Otherwise, an object that owns a batcher would be part
    of a reference cycle, and a dropped session would wait for the garbage collection of old objects, which a worker
    runs rarely.

    Args:
        handle: processes a batch; returns one result per item, in order. An exception among the results is
            raised to the submitter of its item.
        max_items: returns the maximum batch size, at least 1; a method of the same object, or a function.
    """

    def __init__(
        self,
        handle: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: Callable[[], int],
    ) -> None:
        self._handle = _reference(handle)
        self._max_items = _reference(max_items)
        self._running: asyncio.Task[None] | None = None
        self._waiting: deque[_Part] = deque()
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
        return not self._waiting and self._running is None

    def _queue(
        self, items: Sequence[Item], resolve: Callable[[asyncio.Future[Any], Sequence[Any]], None]
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Part(items, self._handle(), contextvars.copy_context(), future, resolve))
        if not self._scheduled and self._running is None:
            self._scheduled = True
            loop.call_soon(self._start)  # after the other callbacks of this tick, which may submit more
        return future

    def _start_after(self, turns: int) -> None:
        """Start a batch after turns of the event loop."""
        self._scheduled = True
        if turns:
            asyncio.get_running_loop().call_soon(self._start_after, turns - 1)
        else:
            self._start()

    def _start(self) -> None:
        self._scheduled = False
        if self._waiting:
            batch = self._next_batch()
            self._running = asyncio.create_task(self._run(batch), context=batch[0].context)

    def _next_batch(self) -> list[_Part]:
        """Remove and return the oldest parts that fit into one batch; the first one even if the limit has shrunk."""
        batch, room = list[_Part](), self._max_items()()
        while self._waiting and (not batch or len(self._waiting[0].items) <= room):
            batch.append(self._waiting.popleft())
            room -= len(batch[-1].items)
        return batch

    async def _run(self, batch: list[_Part]) -> None:
        items = [item for part in batch for item in part.items]
        try:
            results: Sequence[Result | Exception] = await batch[0].handle(items)
        except Exception as error:  # noqa: BLE001  every waiting submitter must get the error
            results = [error] * len(items)
        finally:
            self._running = None
            self._start_after(_TURNS_BETWEEN)
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

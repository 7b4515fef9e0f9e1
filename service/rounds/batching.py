"""Coalescing: what arrives together is done together."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEMS_AT_ONCE = 512
"""Most predictions, or feedbacks, handed over together: a few milliseconds in which the worker hears nobody else."""


class _Part(NamedTuple):
    """Items that go together and are answered together."""

    items: Sequence[Any]
    context: contextvars.Context  # of who asked for them
    future: asyncio.Future[Any]
    resolve: Callable[[asyncio.Future[Any], Sequence[Any]], None]


class Batcher(Generic[Item, Result]):
    """Gathers items and hands them over in batches, one of them in flight at a time.

    While that is in flight further items gather, so batches grow with the load and a lone item does not
    wait. A batch that raises fails all of its items with that error.

    Args:
        handle: does a batch; returns a result for each item, in order. An exception among the results is
            raised to the one whose item it was.
        max_items: the largest batch.
    """

    def __init__(
        self,
        handle: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int,
    ) -> None:
        self._handle = handle
        self._max_items = max_items
        self._running: asyncio.Task[None] | None = None
        self._waiting: deque[_Part] = deque()
        self._scheduled = False

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queues an item; the future brings its result."""
        return self._queue([item], _resolve_one)

    async def submit_all(self, items: Sequence[Item]) -> list[Result | Exception]:
        """The results of many items, in order; what would be raised is among them."""
        starts = range(0, len(items), self._max_items)
        parts = [self._queue(items[start : start + self._max_items], _resolve_all) for start in starts]
        return [result for part in parts for result in await part]

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or in flight."""
        return not self._waiting and self._running is None

    def _queue(
        self, items: Sequence[Item], resolve: Callable[[asyncio.Future[Any], Sequence[Any]], None]
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(_Part(items, contextvars.copy_context(), future, resolve))
        if not self._scheduled and self._running is None:
            self._scheduled = True
            loop.call_soon(self._start)  # behind everything that is ready to run in this tick
        return future

    def _start(self) -> None:
        self._scheduled = False
        if self._waiting:
            batch = self._next_batch()
            self._running = asyncio.create_task(self._run(batch), context=batch[0].context)

    def _next_batch(self) -> list[_Part]:
        """The parts that wait longest, as many as fit into a batch."""
        batch, room = [], self._max_items
        while self._waiting and len(self._waiting[0].items) <= room:
            batch.append(self._waiting.popleft())
            room -= len(batch[-1].items)
        return batch

    async def _run(self, batch: list[_Part]) -> None:
        items = [item for part in batch for item in part.items]
        try:
            results: Sequence[Result | Exception] = await self._handle(items)
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must hear of it
            results = [error] * len(items)
        finally:
            self._running = None
            self._start()
        start = 0
        for part in batch:
            stop = start + len(part.items)
            if not part.future.done():  # else the one who waited has gone
                part.resolve(part.future, results[start:stop])
            start = stop


def _resolve_one(future: asyncio.Future[Any], results: Sequence[Any]) -> None:
    (result,) = results
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _resolve_all(future: asyncio.Future[Any], results: Sequence[Any]) -> None:
    future.set_result(results)

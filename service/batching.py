"""Coalescing: what arrives together is done together."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Gathers items and hands them over in batches, a few of them in flight at once.

    While those are in flight further items gather, so batches grow with the load and a lone item does not
    wait. A batch that raises fails all of its items with that error. It runs in the context of its first item.

    Args:
        handle: does a batch; returns a result for each item, in order. An exception among the results is
            raised to the one whose item it was.
        max_items: the largest batch.
        max_in_flight: how many batches may run at once.
    """

    def __init__(
        self,
        handle: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        max_items: int = 256,
        max_in_flight: int = 1,
    ) -> None:
        self._handle = handle
        self._max_items = max_items
        self._idle = max_in_flight
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._contexts: list[contextvars.Context] = []  # of those waiting
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduled = False

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queues an item; the future brings its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        self._contexts.append(contextvars.copy_context())
        if not self._scheduled and self._idle:
            self._scheduled = True
            loop.call_soon(self._start)  # behind everything that is ready to run in this tick
        return future

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or in flight."""
        return not (self._waiting or self._tasks)

    def _start(self) -> None:
        self._scheduled = False
        while self._waiting and self._idle:
            batch = self._waiting[: self._max_items]
            context = self._contexts[0]
            del self._waiting[: self._max_items], self._contexts[: self._max_items]
            self._idle -= 1
            task = asyncio.create_task(self._run(batch), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results: Sequence[Result | Exception] = await self._handle([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must hear of it
            results = [error] * len(batch)
        finally:
            self._idle += 1
            self._start()
        for (_, future), result in zip(batch, results, strict=True):
            _resolve(future, result)


def _resolve(future: asyncio.Future[Result], result: Result | Exception) -> None:
    if future.done():  # the one who waited has gone
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)

"""Group commit: items that arrive while a batch is in flight form the next batch."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
# Handles a batch; returns a result or an exception for each item, in order. `submit` raises its item's exception.
Handle: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]

# Maximum predictions, or feedback items, per batch. A full batch blocks the event loop for a few milliseconds.
ITEMS_AT_ONCE = 512

# Turns of the event loop after a batch of several items, to write its answers, read new requests, and submit them. The
# new requests enlarge the next batch, which lowers the cost of each item.
_TURNS_BETWEEN = 3


class _Waiting(NamedTuple, Generic[Item, Result]):
    """Items submitted together, which share one future and are never split across batches."""

    items: Sequence[Item]
    handle: Handle[Item, Result]
    room: int  # maximum items of a batch that begins with these
    context: contextvars.Context  # that of the submitting task
    future: asyncio.Future[Sequence[Result | Exception]]


class GroupCommit(Generic[Item, Result]):
    """Groups items into batches.

    An item that arrives while no batch is in flight is handled immediately, in the submitting task. Items that arrive
    before that item is done form the next batch, which is handled in a separate task, so that the cancellation of one
    submitter affects no other. If handling a batch raises an error, all its items fail with this error. The next batch
    starts when a batch ends (a few turns later, if that batch had several items) or, if fewer than `at_once` batches
    are in flight, as soon as it is full.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._in_flight = 0
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._tasks = set[asyncio.Task[None]]()
        self._paused = False

    @property
    def idle(self) -> bool:
        """Whether no item is waiting or in flight."""
        return not self._waiting and not self._in_flight

    async def submit(self, item: Item, handle: Handle[Item, Result], room: int) -> Result:
        """Handle an item; return its result.

        A batch that begins with this item is passed to `handle`, and has at most `room` items.
        """
        (result,) = await self._submit([item], handle, room)
        if isinstance(result, Exception):
            raise result
        return result

    async def submit_all(
        self, items: Sequence[Item], handle: Handle[Item, Result], room: int, most: int
    ) -> list[Result | Exception]:
        """Handle many items, at most `most` of them in one batch; return results and exceptions in order."""
        results = list[Result | Exception]()
        for start in range(0, len(items), most):
            results += await self._submit(items[start : start + most], handle, room)
        return results

    def _submit(
        self, items: Sequence[Item], handle: Handle[Item, Result], room: int
    ) -> Awaitable[Sequence[Result | Exception]]:
        if self._in_flight or self._waiting or self._paused:
            return self._queue(items, handle, room)
        self._in_flight = 1
        return self._handle(items, handle)

    async def _handle(self, items: Sequence[Item], handle: Handle[Item, Result]) -> Sequence[Result | Exception]:
        """Handle a batch in flight, and end it. If `handle` raises an error, return this error for every item."""
        try:
            return await handle(items)
        except Exception as error:  # noqa: BLE001  every submitter must get it
            return [error] * len(items)
        finally:
            self._end(len(items))

    def _queue(
        self, items: Sequence[Item], handle: Handle[Item, Result], room: int
    ) -> asyncio.Future[Sequence[Result | Exception]]:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(items, handle, room, contextvars.copy_context(), future))
        is_full = sum([len(each.items) for each in self._waiting]) >= self._waiting[0].room
        if is_full and self._in_flight < self._at_once and not self._paused:
            self._start()
        return future

    def _end(self, size: int) -> None:
        """End a batch of `size` items, and start the next one: at once, or after some turns if `size` is above 1."""
        self._in_flight -= 1
        if size > 1 and not self._paused:
            self._paused = True
            self._pause(_TURNS_BETWEEN)
        elif not self._paused and self._waiting:
            self._start()

    def _pause(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._pause, turns - 1)
            return
        self._paused = False
        if self._waiting and self._in_flight < self._at_once:
            self._start()

    def _start(self) -> None:
        batch = self._next_batch()
        self._in_flight += 1
        task = asyncio.create_task(self._run(batch), context=batch[0].context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[_Waiting[Item, Result]]:
        """Remove and return the oldest items that fit into one batch; the first submission even if it does not fit."""
        batch: list[_Waiting[Item, Result]] = []
        room = self._waiting[0].room
        while self._waiting and (not batch or len(self._waiting[0].items) <= room):
            batch.append(self._waiting.popleft())
            room -= len(batch[-1].items)
        return batch

    async def _run(self, batch: Sequence[_Waiting[Item, Result]]) -> None:
        results = await self._handle([item for waiting in batch for item in waiting.items], batch[0].handle)
        start = 0
        for waiting in batch:
            stop = start + len(waiting.items)
            if not waiting.future.done():  # done if the submitter was cancelled
                waiting.future.set_result(results[start:stop])
            start = stop

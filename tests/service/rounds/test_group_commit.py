"""The laws of group commit: a lone item is handled at once, and what arrives until then is handled together."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from service.rounds.group_commit import GroupCommit


class Handler:
    """Doubles numbers in batches; each batch waits until the test opens the gate."""

    def __init__(self, at_once: int = 1, open_gates: bool = False) -> None:
        self.commits: GroupCommit[int, int] = GroupCommit(at_once=at_once)
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.running = self.most_running = 0
        if open_gates:
            self.gate.set()

    async def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        """Return twice each number; refuse negative ones; raise on a zero."""
        self.batches.append(list(items))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await self.gate.wait()
        self.running -= 1
        if 0 in items:
            raise LookupError("a zero")
        return [ValueError(f"negative: {item}") if item < 0 else 2 * item for item in items]

    def submit(self, *items: int, room: int = 256) -> list[asyncio.Task[int]]:
        """Submit items, each in a separate task."""
        return [asyncio.ensure_future(self.commits.submit(item, self, room)) for item in items]

    async def finish(self, tasks: list[asyncio.Task[int]]) -> list[Any]:
        """Open the gate, and return the results, or errors."""
        self.gate.set()
        async with asyncio.timeout(5.0):
            return await asyncio.gather(*tasks, return_exceptions=True)


async def turn(times: int = 5) -> None:
    """Run every task that is ready."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_lone_item_is_handled_in_its_own_task() -> None:
    tasks = list[object]()

    async def handle(items: Sequence[int]) -> Sequence[int]:
        tasks.append(asyncio.current_task())
        return items

    commits = GroupCommit[int, int]()
    assert [await commits.submit(n, handle, 256) for n in (1, 2)] == [1, 2]
    assert tasks == [asyncio.current_task()] * 2


async def test_what_arrives_while_an_item_is_in_flight_is_handled_together() -> None:
    handler, tasks = Handler(), list[asyncio.Task[int]]()
    idle = [handler.commits.idle]
    for n in range(1, 8):
        tasks += handler.submit(n)
        await turn()
        idle.append(handler.commits.idle)
    assert handler.batches == [[1]]
    assert await handler.finish(tasks) == [2 * n for n in range(1, 8)]
    assert handler.batches == [[1], [2, 3, 4, 5, 6, 7]]
    assert handler.most_running == 1
    await turn()
    assert [*idle, handler.commits.idle] == [True, *[False] * 7, True]


async def test_no_batch_exceeds_its_room() -> None:
    handler = Handler()
    tasks = handler.submit(*range(1, 12), room=4)
    await turn()
    assert await handler.finish(tasks) == [2 * n for n in range(1, 12)]
    assert [len(batch) for batch in handler.batches] == [1, 4, 4, 2]


async def test_a_refused_item_fails_alone_and_a_batch_that_raises_fails_all_of_its_items() -> None:
    handler = Handler()
    tasks = handler.submit(1, 3, -2, 5)
    await turn()
    results = await handler.finish(tasks)
    assert [results[0], results[1], type(results[2]), results[3]] == [2, 6, ValueError, 10]
    handler.gate.clear()
    tasks = handler.submit(7, 1, 0)
    await turn()
    assert [type(result) for result in await handler.finish(tasks)] == [int, LookupError, LookupError]
    for item, error in ((-2, ValueError), (0, LookupError)):
        with pytest.raises(error):
            await handler.commits.submit(item, handler, 256)
    assert await handler.commits.submit(4, handler, 256) == 8


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_a_cancelled_item_takes_no_other_with_it(gone: int) -> None:
    """Whether it is alone in flight, or waits with others, in flight or not: the others get their results."""
    handler = Handler()
    tasks = handler.submit(1, 2, 3, 4)
    await turn()
    if gone:
        handler.gate.set()
        await turn(1)  # the first is over, and the others are in flight
    tasks[gone].cancel()
    results = await handler.finish(tasks)
    assert [result for i, result in enumerate(results) if i != gone] == [2 * n for n in (1, 2, 3, 4) if n != gone + 1]
    await turn()
    assert handler.commits.idle


async def test_a_batch_runs_in_the_context_of_its_first_item() -> None:
    request: ContextVar[str] = ContextVar("request")
    seen, go_on = [], asyncio.Event()

    async def handle(items: Sequence[str]) -> Sequence[str]:
        seen.append((request.get(), list(items)))
        await go_on.wait()
        return items

    commits = GroupCommit[str, str]()

    async def ask(name: str) -> None:
        request.set(name)
        await commits.submit(name, handle, 256)

    first = asyncio.create_task(ask("a"))
    await turn()
    others = [asyncio.create_task(ask(name)) for name in "bc"]
    await turn()
    go_on.set()
    await asyncio.gather(first, *others)
    assert seen == [("a", ["a"]), ("b", ["b", "c"])]


async def test_items_of_a_dropped_owner_get_their_results() -> None:
    """An owner that its holder drops lives until its items have results, and no longer, without garbage collection."""
    owner = Handler(open_gates=True)
    alive, results = weakref.ref(owner), owner.submit(1, 2, 3)
    await turn(1)
    del owner
    gc.disable()
    try:
        async with asyncio.timeout(5.0):
            assert await asyncio.gather(*results) == [2, 4, 6]
        del results
        await turn()
        assert alive() is None
    finally:
        gc.enable()


async def test_responses_leave_before_the_next_batch_starts() -> None:
    """Submitters get the results of a batch, and what they submit a turn later joins the items that wait."""
    handler = Handler()

    async def client(n: int) -> None:
        await handler.commits.submit(n, handler, 256)
        await asyncio.sleep(0)  # the next request arrives
        await handler.commits.submit(10 * n, handler, 256)

    first = handler.submit(4)
    await turn()
    clients = [asyncio.create_task(client(n)) for n in (1, 2)]
    await turn()
    handler.gate.set()
    handler.gate = asyncio.Event()
    await turn(3)
    waiting = handler.submit(3)
    handler.gate.set()
    await asyncio.gather(*first, *clients, *waiting)
    assert handler.batches == [[4], [1, 2], [3, 10, 20]]


async def test_only_full_batches_run_beside_another() -> None:
    """With room for 3, a second batch starts once 3 items wait, and a third only after one of the two."""
    handler, tasks = Handler(at_once=2), list[asyncio.Task[int]]()
    for n in range(1, 12):
        tasks += handler.submit(n, room=3)
        await turn()
    assert handler.batches == [[1], [2, 3, 4]]
    assert await handler.finish(tasks) == [2 * n for n in range(1, 12)]
    assert handler.batches == [[1], [2, 3, 4], [5, 6, 7], [8, 9, 10], [11]]
    assert handler.most_running == 2
    assert handler.commits.idle


async def test_a_batch_is_full_by_the_room_of_its_first_item() -> None:
    handler = Handler(at_once=2)
    tasks = [*handler.submit(1, 2, room=3), *handler.submit(3, room=1)]
    await turn()
    assert handler.batches == [[1]]
    tasks += handler.submit(4, room=9)
    await turn()
    assert handler.batches == [[1], [2, 3, 4]]
    assert await handler.finish(tasks) == [2, 4, 6, 8]


async def test_items_submitted_together_stay_together() -> None:
    """A part of `submit_all` is one batch of at most `most` items, even beyond the room."""
    handler = Handler(at_once=2, open_gates=True)
    results = await handler.commits.submit_all(range(1, 11), handler, room=2, most=4)
    assert results == [2 * n for n in range(1, 11)]
    assert [len(batch) for batch in handler.batches] == [4, 4, 2]

"""The laws of group commit: a lone item is handled at once, and what arrives until then is handled together."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from service.rounds.group_commit import GroupCommit


class Handler:
    """Doubles numbers in batches; each batch waits until the test opens the gate."""

    def __init__(self, open_gates: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.running = 0
        self.most_running = 0
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


async def turn(times: int = 5) -> None:
    """Run every task that is ready."""
    for _ in range(times):
        await asyncio.sleep(0)


def submitted(
    commits: GroupCommit[int, int], handler: Handler, *items: int, room: int = 256
) -> list[asyncio.Task[int]]:
    """Submit items, each in a separate task."""
    return [asyncio.ensure_future(commits.submit(item, handler, room)) for item in items]


async def test_a_lone_item_is_handled_in_its_own_task() -> None:
    """A single item is handled at once, by the task that submits it."""
    tasks = list[object]()

    async def handle(items: Sequence[int]) -> Sequence[int]:
        tasks.append(asyncio.current_task())
        return items

    commits = GroupCommit[int, int]()
    assert [await commits.submit(n, handle, 256) for n in (1, 2)] == [1, 2]
    assert tasks == [asyncio.current_task()] * 2


async def test_what_arrives_while_an_item_is_in_flight_is_handled_together() -> None:
    """Items collect while a batch is in flight, and form the next batch."""
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()
    tasks = list[asyncio.Task[int]]()
    for n in range(1, 8):
        tasks += submitted(commits, handler, n)
        await turn()
    assert handler.batches == [[1]]
    handler.gate.set()
    assert await asyncio.gather(*tasks) == [2 * n for n in range(1, 8)]
    assert handler.batches == [[1], [2, 3, 4, 5, 6, 7]]
    assert handler.most_running == 1


async def test_no_batch_exceeds_its_room() -> None:
    """More items than there is room for form several batches, and each item is handled once."""
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()
    tasks = submitted(commits, handler, *range(1, 12), room=4)
    await turn()
    handler.gate.set()
    assert await asyncio.gather(*tasks) == [2 * n for n in range(1, 12)]
    assert [len(batch) for batch in handler.batches] == [1, 4, 4, 2]


async def test_an_exception_among_the_results_reaches_its_item_only() -> None:
    """A refused item does not affect the others."""
    handler, commits = Handler(), GroupCommit[int, int]()
    results = await asyncio.gather(*submitted(commits, handler, 1, 3, -2, 5), return_exceptions=True)
    assert [results[0], results[1], results[3]] == [2, 6, 10]
    assert isinstance(results[2], ValueError)
    with pytest.raises(ValueError, match="negative: -2"):
        await commits.submit(-2, handler, 256)


async def test_a_batch_that_raises_fails_all_of_its_items() -> None:
    """Each item of the batch gets the error, and the next batch runs normally."""
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()
    tasks = submitted(commits, handler, 7, 1, 0)
    await turn()
    handler.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [int, LookupError, LookupError]
    with pytest.raises(LookupError):
        await commits.submit(0, handler, 256)
    assert await commits.submit(4, handler, 256) == 8


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_a_cancelled_item_takes_no_other_with_it(gone: int) -> None:
    """Whether it is alone in flight, or waits with others, in flight or not: the others get their results."""
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()
    tasks = submitted(commits, handler, 1, 2, 3, 4)
    await turn()
    if gone:
        handler.gate.set()
        await turn(1)  # the first is over, and the others are in flight
    tasks[gone].cancel()
    handler.gate.set()
    async with asyncio.timeout(5.0):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    expected = [2, 4, 6, 8]
    assert [result for i, result in enumerate(results) if i != gone] == expected[:gone] + expected[gone + 1 :]
    await turn()
    assert commits.idle


async def test_idle_is_true_only_without_pending_items() -> None:
    """It is idle before the first item and after the last result, but not while items wait or run."""
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()
    idle = [commits.idle]
    tasks = submitted(commits, handler, 1)
    await turn()
    idle.append(commits.idle)
    tasks += submitted(commits, handler, 2)
    await turn()
    idle.append(commits.idle)
    handler.gate.set()
    await asyncio.gather(*tasks)
    await turn()
    assert [*idle, commits.idle] == [True, False, False, True]


async def test_a_batch_runs_in_the_context_of_its_first_item() -> None:
    """Items that waited for another batch do not run in that batch's context."""
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


class Owner:
    """An object that owns a group commit and handles its items."""

    def __init__(self) -> None:
        self.commits = GroupCommit[int, int]()

    async def double(self, n: int) -> int:
        """Return twice a number."""
        return await self.commits.submit(n, self._double, 1)

    async def _double(self, items: Sequence[int]) -> Sequence[int]:
        await asyncio.sleep(0)
        return [2 * item for item in items]


async def test_items_of_a_dropped_owner_get_their_results() -> None:
    """An owner that its holder drops lives until its items have results, and no longer, without garbage collection."""
    owner = Owner()
    alive, results = weakref.ref(owner), [asyncio.ensure_future(owner.double(n)) for n in (1, 2, 3)]
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
    handler, commits = Handler(open_gates=False), GroupCommit[int, int]()

    async def client(n: int) -> None:
        await commits.submit(n, handler, 256)
        await asyncio.sleep(0)  # the next request arrives
        await commits.submit(10 * n, handler, 256)

    first = submitted(commits, handler, 4)
    await turn()
    clients = [asyncio.create_task(client(n)) for n in (1, 2)]
    await turn()
    handler.gate.set()
    handler.gate = asyncio.Event()
    await turn(3)
    waiting = submitted(commits, handler, 3)
    handler.gate.set()
    await asyncio.gather(*first, *clients, *waiting)
    assert handler.batches == [[4], [1, 2], [3, 10, 20]]


async def test_only_full_batches_run_beside_another() -> None:
    """With room for 3, a second batch starts once 3 items wait, and a third only after one of the two."""
    handler, commits, tasks = Handler(open_gates=False), GroupCommit[int, int](at_once=2), list[asyncio.Task[int]]()
    for n in range(1, 12):
        tasks += submitted(commits, handler, n, room=3)
        await turn()
    assert handler.batches == [[1], [2, 3, 4]]
    handler.gate.set()
    assert await asyncio.gather(*tasks) == [2 * n for n in range(1, 12)]
    assert handler.batches == [[1], [2, 3, 4], [5, 6, 7], [8, 9, 10], [11]]
    assert handler.most_running == 2
    assert commits.idle


async def test_items_submitted_together_stay_together() -> None:
    """A part of `submit_all` is one batch of at most `most` items, even beyond the room."""
    handler, commits = Handler(), GroupCommit[int, int](at_once=2)
    assert await commits.submit_all(range(1, 11), handler, room=2, most=4) == [2 * n for n in range(1, 11)]
    assert [len(batch) for batch in handler.batches] == [4, 4, 2]

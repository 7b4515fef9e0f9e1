"""The laws of coalescing: every item gets its result, in batches that grow with the load."""

import asyncio
import weakref
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from service.rounds.batching import Batcher


class Handler:
    """Doubles numbers in batches; each batch waits until the test opens the gate."""

    def __init__(self, open_gates: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.running = 0
        self.most_running = 0
        if open_gates:
            self.gate.set()

    async def __call__(self, items: list[int]) -> Sequence[int | Exception]:
        """Return twice each number; refuse negative ones; raise on a zero."""
        self.batches.append(items)
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


async def test_items_of_one_tick_are_one_batch() -> None:
    """Items submitted in one turn of the event loop form one batch, with results in order."""
    handler = Handler()
    batcher = Batcher(handler, lambda: 256)
    assert await asyncio.gather(*(batcher.submit(n) for n in (1, 2, 3))) == [2, 4, 6]
    assert handler.batches == [[1, 2, 3]]


async def test_a_lone_item_does_not_wait() -> None:
    """A single item forms a batch immediately if none is in flight."""
    handler = Handler()
    batcher = Batcher(handler, lambda: 256)
    assert [await batcher.submit(1), await batcher.submit(2)] == [2, 4]
    assert handler.batches == [[1], [2]]


async def test_batches_grow_while_another_is_in_flight() -> None:
    """Items collect while a batch is in flight, and form the next batch."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, lambda: 256)
    futures = []
    for n in range(1, 8):
        futures.append(batcher.submit(n))
        await turn()
    assert handler.batches == [[1]]
    handler.gate.set()
    assert await asyncio.gather(*futures) == [2 * n for n in range(1, 8)]
    assert handler.batches == [[1], [2, 3, 4, 5, 6, 7]]
    assert handler.most_running == 1


async def test_no_batch_exceeds_max_items() -> None:
    """More items than `max_items` form several batches, and each item is processed once."""
    handler = Handler()
    batcher = Batcher(handler, max_items=lambda: 4)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(1, 12))) == [2 * n for n in range(1, 12)]
    assert [len(batch) for batch in handler.batches] == [4, 4, 3]


async def test_an_exception_among_the_results_reaches_its_item_only() -> None:
    """A refused item does not affect the others."""
    batcher = Batcher(Handler(), lambda: 256)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, -2, 3)), return_exceptions=True)
    assert [results[0], results[2]] == [2, 6]
    assert isinstance(results[1], ValueError)
    with pytest.raises(ValueError, match="negative: -2"):
        await batcher.submit(-2)


async def test_a_batch_that_raises_fails_all_of_its_items() -> None:
    """Each item of the batch gets the error, and the next batch runs normally."""
    batcher = Batcher(Handler(), lambda: 256)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, 0)), return_exceptions=True)
    assert [type(result) for result in results] == [LookupError] * 2
    assert await batcher.submit(4) == 8


async def test_a_cancelled_item_does_not_affect_others() -> None:
    """The result of a cancelled item is dropped; the other items get theirs."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, lambda: 256)
    gone, waiting = batcher.submit(1), batcher.submit(2)
    await turn()
    gone.cancel()
    handler.gate.set()
    assert await waiting == 4
    assert gone.cancelled()


async def test_idle_is_true_only_without_pending_items() -> None:
    """A batcher is idle before the first item and after the last result, but not while items wait or run."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, lambda: 256)
    idle = [batcher.idle]
    futures = [batcher.submit(1)]
    idle.append(batcher.idle)
    await turn()
    futures.append(batcher.submit(2))
    idle.append(batcher.idle)
    handler.gate.set()
    await asyncio.gather(*futures)
    await turn()
    assert [*idle, batcher.idle] == [True, False, False, True]


async def test_a_batch_runs_in_the_context_of_its_first_item() -> None:
    """Items that waited for another batch do not run in that batch's context."""
    request: ContextVar[str] = ContextVar("request")
    seen, go_on = [], asyncio.Event()

    async def handle(items: list[str]) -> list[str]:
        seen.append((request.get(), items))
        await go_on.wait()
        return items

    batcher: Batcher[str, str] = Batcher(handle, lambda: 256)

    async def ask(name: str) -> None:
        request.set(name)
        await batcher.submit(name)

    first = asyncio.create_task(ask("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(ask(name)) for name in "bc"]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, *others)
    assert seen == [("a", ["a"]), ("b", ["b", "c"])]


class Owner:
    """An object that owns a batcher and handles its items."""

    def __init__(self) -> None:
        self.batcher: Batcher[int, int] = Batcher(self._double, self._most)

    async def _double(self, items: list[int]) -> Sequence[int | Exception]:
        await asyncio.sleep(0)
        return [2 * item for item in items]

    def _most(self) -> int:
        return 1


async def test_items_of_a_dropped_owner_get_their_results() -> None:
    """An owner that its holder drops lives until its items have results, and no longer."""
    owner = Owner()
    alive, results = weakref.ref(owner), [owner.batcher.submit(n) for n in (1, 2, 3)]
    del owner
    async with asyncio.timeout(5.0):
        assert await asyncio.gather(*results) == [2, 4, 6]
    del results
    await turn()
    assert alive() is None


async def test_responses_leave_before_the_next_batch_starts() -> None:
    """Submitters get the results of a batch, and what they submit a turn later joins the items that wait."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, lambda: 256)

    async def client(n: int) -> None:
        await batcher.submit(n)
        await asyncio.sleep(0)  # the next request arrives
        await batcher.submit(10 * n)

    clients = [asyncio.create_task(client(n)) for n in (1, 2)]
    await turn()
    waiting = batcher.submit(3)
    handler.gate.set()
    await asyncio.gather(*clients, waiting)
    assert handler.batches == [[1, 2], [3, 10, 20]]


async def test_only_full_batches_run_beside_another() -> None:
    """With room for 3, a second batch starts once 3 items wait, and a third only after one of the two."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, lambda: 256, at_once=2, room=lambda: 3)
    futures = []
    for n in range(1, 12):
        futures.append(batcher.submit(n))
        await turn()
    assert handler.batches == [[1], [2, 3, 4]]
    handler.gate.set()
    assert await asyncio.gather(*futures) == [2 * n for n in range(1, 12)]
    assert handler.batches == [[1], [2, 3, 4], [5, 6, 7], [8, 9, 10], [11]]
    assert handler.most_running == 2
    assert batcher.idle


async def test_items_submitted_together_stay_together() -> None:
    """A part of `submit_all` is one batch of at most `max_items`, even beyond the room."""
    handler = Handler()
    batcher = Batcher(handler, lambda: 4, at_once=2, room=lambda: 2)
    assert await batcher.submit_all(range(1, 11)) == [2 * n for n in range(1, 11)]
    assert [len(batch) for batch in handler.batches] == [4, 4, 2]

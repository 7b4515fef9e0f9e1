"""The laws of coalescing: every item gets its own result, in batches that grow with the load."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from service.rounds.batching import Batcher


class Handler:
    """Doubles numbers, batch by batch, each held back until the test lets it go."""

    def __init__(self, open_gates: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.running = 0
        self.most_running = 0
        if open_gates:
            self.gate.set()

    async def __call__(self, items: list[int]) -> Sequence[int | Exception]:
        """Twice each number; refuses negative ones; falls over a zero."""
        self.batches.append(items)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await self.gate.wait()
        self.running -= 1
        if 0 in items:
            raise LookupError("a zero")
        return [ValueError(f"negative: {item}") if item < 0 else 2 * item for item in items]


async def turn(times: int = 5) -> None:
    """Lets everything run that is ready."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_items_of_one_tick_are_one_batch() -> None:
    """What is submitted in one turn of the event loop is handed over together, and answered in order."""
    handler = Handler()
    batcher = Batcher(handler, 256)
    assert await asyncio.gather(*(batcher.submit(n) for n in (1, 2, 3))) == [2, 4, 6]
    assert handler.batches == [[1, 2, 3]]


async def test_a_lone_item_does_not_wait() -> None:
    """One item is a batch, where no other is in flight."""
    handler = Handler()
    batcher = Batcher(handler, 256)
    assert [await batcher.submit(1), await batcher.submit(2)] == [2, 4]
    assert handler.batches == [[1], [2]]


async def test_batches_grow_while_another_is_in_flight() -> None:
    """Items gather while a batch is in flight, and go together when it comes back."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, 256)
    futures = []
    for n in range(1, 8):
        futures.append(batcher.submit(n))
        await turn()
    assert handler.batches == [[1]]
    handler.gate.set()
    assert await asyncio.gather(*futures) == [2 * n for n in range(1, 8)]
    assert handler.batches == [[1], [2, 3, 4, 5, 6, 7]]
    assert handler.most_running == 1


async def test_a_batch_has_its_limit() -> None:
    """No batch is larger than `max_items`; nothing is lost or done twice when there are more."""
    handler = Handler()
    batcher = Batcher(handler, max_items=4)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(1, 12))) == [2 * n for n in range(1, 12)]
    assert [len(batch) for batch in handler.batches] == [4, 4, 3]


async def test_an_exception_among_the_results_reaches_its_item_only() -> None:
    """A refused item does not spoil its neighbours."""
    batcher = Batcher(Handler(), 256)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, -2, 3)), return_exceptions=True)
    assert [results[0], results[2]] == [2, 6]
    assert isinstance(results[1], ValueError)
    with pytest.raises(ValueError, match="negative: -2"):
        await batcher.submit(-2)


async def test_a_batch_that_raises_fails_all_of_its_items() -> None:
    """Everyone who waits hears of the error, and the next batch runs as if nothing had been."""
    batcher = Batcher(Handler(), 256)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, 0)), return_exceptions=True)
    assert [type(result) for result in results] == [LookupError] * 2
    assert await batcher.submit(4) == 8


async def test_who_no_longer_waits_disturbs_nobody() -> None:
    """A cancelled item's result is dropped; its neighbours get theirs."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, 256)
    gone, waiting = batcher.submit(1), batcher.submit(2)
    await turn()
    gone.cancel()
    handler.gate.set()
    assert await waiting == 4
    assert gone.cancelled()


async def test_idle_says_whether_anything_is_under_way() -> None:
    """Idle before, not while something waits or is in flight, and idle again when all of it is answered."""
    handler = Handler(open_gates=False)
    batcher = Batcher(handler, 256)
    told = [batcher.idle]
    futures = [batcher.submit(1)]
    told.append(batcher.idle)
    await turn()
    futures.append(batcher.submit(2))
    told.append(batcher.idle)
    handler.gate.set()
    await asyncio.gather(*futures)
    await turn()
    assert [*told, batcher.idle] == [True, False, False, True]


async def test_a_batch_runs_in_the_context_of_its_first_item() -> None:
    """What waited behind another batch is not taken for a part of that one's request."""
    request: ContextVar[str] = ContextVar("request")
    seen, go_on = [], asyncio.Event()

    async def handle(items: list[str]) -> list[str]:
        seen.append((request.get(), items))
        await go_on.wait()
        return items

    batcher: Batcher[str, str] = Batcher(handle, 256)

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

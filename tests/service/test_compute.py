"""The laws of the threads for long computations: bounded, shared fairly, and no obstacle to a stop."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from service.compute import INLINE_COST, SLICE_COST, Compute, slices
from service.errors import StoppingError


class Gate:
    """A computation that lasts until it is let go."""

    def __init__(self) -> None:
        self._begun, self._go_on = threading.Semaphore(0), threading.Event()
        self.running, self.most = 0, 0

    def __call__(self) -> str:
        """Wait in the thread of the pool."""
        self.running += 1
        self.most = max(self.most, self.running)
        self._begun.release()
        self._go_on.wait(30.0)
        self.running -= 1
        return threading.current_thread().name

    async def begun(self, times: int = 1) -> None:
        """Wait until this number of further computations have begun."""
        for _ in range(times):
            assert await asyncio.to_thread(self._begun.acquire, timeout=30.0)

    def open(self) -> None:
        """Let all go, those that come too."""
        self._go_on.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A computation that ends with the test."""
    gate = Gate()
    yield gate
    gate.open()


def asked(compute: Compute, owner: str, function: Callable[[], str]) -> "asyncio.Task[str]":
    """A computation under way."""
    return asyncio.create_task(compute.run(owner, function))


async def test_one_owner_has_half_of_the_threads(gate: Gate) -> None:
    """However much one model asks for, another finds a thread at once."""
    compute, other = Compute(4), Gate()
    hog = [asked(compute, "hog", gate) for _ in range(20)]
    await gate.begun(2)
    other.open()
    assert (await compute.run("small", other)).startswith("compute-")
    assert gate.most == 2
    gate.open()
    await asyncio.gather(*hog)
    assert gate.most == 2
    assert not compute.busy


async def test_no_more_threads_than_it_has(gate: Gate) -> None:
    """Many owners share the threads; all are served."""
    compute = Compute(2)
    tasks = [asked(compute, f"owner-{i}", gate) for i in range(10)]
    await gate.begun(2)
    gate.open()
    names = await asyncio.gather(*tasks)
    assert gate.most == 2
    assert set(names) <= {"compute-1", "compute-2"}


async def test_owners_take_turns(gate: Gate) -> None:
    """One job of each owner after the other, not all of the first that came; one thread is left for them."""
    compute, order, brief = Compute(2), list[str](), Gate()
    holding, blocking = asked(compute, "a", gate), asked(compute, "b", brief)
    await gate.begun()
    await brief.begun()
    waiting = [compute.run(owner, order.append, owner) for owner in ("x", "x", "x", "y", "z")]
    tasks = [asyncio.ensure_future(each) for each in waiting]
    await asyncio.sleep(0)
    brief.open()
    await asyncio.gather(blocking, *tasks)
    assert order == ["x", "y", "z", "x", "x"]
    gate.open()
    await holding


async def test_little_is_computed_at_once() -> None:
    """What costs less than a hop to a thread stays in the event loop; what costs more leaves it."""
    compute, here = Compute(2), threading.current_thread().name
    name = lambda: threading.current_thread().name  # noqa: E731
    assert await compute.run_costly(INLINE_COST - 1, "m", name) == here
    assert await compute.run_costly(INLINE_COST, "m", name) != here


async def test_an_error_reaches_the_one_who_asked() -> None:
    """An error of a computation is raised where it was asked for, and its thread goes on."""

    def fail() -> None:
        raise FloatingPointError("no")

    compute = Compute(2)
    for _ in range(5):
        with pytest.raises(FloatingPointError, match="no"):
            await compute.run("m", fail)
    assert await compute.run("m", lambda: 7) == 7


async def test_a_cancelled_computation_frees_its_thread(gate: Gate) -> None:
    """Its thread takes the next job when it is done, and skips what is no longer wanted."""
    compute, skipped = Compute(2), list[int]()
    first = asked(compute, "m", gate)
    await gate.begun()
    second = asyncio.ensure_future(compute.run("m", skipped.append, 1))
    await asyncio.sleep(0)
    for task in (first, second):
        task.cancel()
    await asyncio.wait([first, second])
    gate.open()
    assert await compute.run("m", lambda: 7) == 7
    assert skipped == []
    assert not compute.busy


async def test_a_closed_pool_refuses(gate: Gate) -> None:
    """After the close nothing begins, and waiting callers get the reason."""
    compute = Compute(2)
    running = asked(compute, "m", gate)
    await gate.begun()
    waiting = asked(compute, "m", gate)
    await asyncio.sleep(0)
    compute.close()
    with pytest.raises(StoppingError):
        await waiting
    with pytest.raises(StoppingError):
        await compute.run("m", gate)
    gate.open()
    assert (await running).startswith("compute-")


@pytest.mark.parametrize("n", [1, 2, 7, 512])
@pytest.mark.parametrize("cost", [1, 1000, SLICE_COST // 3, SLICE_COST, 10 * SLICE_COST])
@pytest.mark.parametrize("overhead", [0, 100 * SLICE_COST])
def test_slices_cover_all_and_are_short(n: int, cost: int, overhead: int) -> None:
    """Every step is in one slice, in order; a slice of several steps costs no more than it may."""
    cut = slices(n, cost, overhead)
    assert [i for start, stop in cut for i in range(start, stop)] == list(range(n))
    assert all(stop - start == 1 or (stop - start) * cost <= max(SLICE_COST, overhead) for start, stop in cut)

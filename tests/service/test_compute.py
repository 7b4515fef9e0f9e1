"""The laws of the thread pool for long computations: bounded, shared fairly, and quick to stop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from service import costs, request_context
from service.compute import Compute, slices
from service.errors import StoppingError


class Gate:
    def __init__(self) -> None:
        self._begun, self._go_on = threading.Semaphore(0), threading.Event()
        self.running, self.most = 0, 0

    def __call__(self) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        self._begun.release()
        self._go_on.wait(30.0)
        self.running -= 1
        return threading.current_thread().name

    async def begun(self, times: int = 1) -> None:
        for _ in range(times):
            assert await asyncio.to_thread(self._begun.acquire, timeout=30.0)

    def open(self) -> None:
        self._go_on.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@contextlib.contextmanager
def as_key(key_id: str | None) -> Iterator[None]:
    notes = request_context.RequestContext("request")
    notes.key_id = key_id
    token = request_context.current.set(notes)
    yield
    request_context.current.reset(token)


def submitted(compute: Compute, owner: str, function: Callable[[], str]) -> "asyncio.Task[str]":
    return asyncio.create_task(compute.run(owner, function))


async def test_one_owner_has_half_of_the_threads(gate: Gate) -> None:
    compute, other = Compute(4), Gate()
    hog = [submitted(compute, "hog", gate) for _ in range(20)]
    await gate.begun(2)
    other.open()
    assert (await compute.run("small", other)).startswith("compute-")
    assert gate.most == 2
    gate.open()
    await asyncio.gather(*hog)
    assert gate.most == 2
    assert not compute.busy


async def test_one_key_has_half_of_the_threads_for_all_of_its_models(gate: Gate) -> None:
    compute, other = Compute(2), Gate()
    with as_key("hog"):
        hog = [submitted(compute, f"model-{i}", gate) for i in range(5)]
    await gate.begun()
    other.open()
    with as_key("small"):
        assert (await compute.run("model-0", other)).startswith("compute-")
    with as_key(None):
        assert (await compute.run("model-0", other)).startswith("compute-")
    assert gate.most == 1
    gate.open()
    await asyncio.gather(*hog)


async def test_owners_take_turns(gate: Gate) -> None:
    compute, order, brief = Compute(2), list[str](), Gate()
    holding, blocking = submitted(compute, "a", gate), submitted(compute, "b", brief)
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


async def test_cheap_work_runs_in_the_event_loop() -> None:
    compute, here = Compute(2), threading.current_thread().name
    name = lambda: threading.current_thread().name  # noqa: E731
    assert await compute.run_in_thread_if_costly(costs.INLINE - 1, "m", name) == here
    assert await compute.run_in_thread_if_costly(costs.INLINE, "m", name) != here


async def test_an_error_reaches_its_caller() -> None:
    def fail() -> None:
        raise FloatingPointError("no")

    compute = Compute(2)
    for _ in range(5):
        with pytest.raises(FloatingPointError, match="no"):
            await compute.run("m", fail)
    assert await compute.run("m", lambda: 7) == 7


async def test_a_cancelled_computation_frees_its_thread(gate: Gate) -> None:
    compute, skipped = Compute(2), list[int]()
    first = submitted(compute, "m", gate)
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
    compute = Compute(2)
    running = submitted(compute, "m", gate)
    await gate.begun()
    waiting = submitted(compute, "m", gate)
    await asyncio.sleep(0)
    compute.close()
    with pytest.raises(StoppingError):
        await waiting
    with pytest.raises(StoppingError):
        await compute.run("m", gate)
    gate.open()
    assert (await running).startswith("compute-")


async def test_threads_end_with_their_pool() -> None:
    compute = Compute(4)
    threads = await asyncio.gather(*(compute.run(owner, threading.current_thread) for owner in "ab"))
    compute.close()
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()


@pytest.mark.parametrize("n", [1, 2, 7, 512])
@pytest.mark.parametrize("cost", [1, 1000, costs.SLICE // 3, costs.SLICE, 10 * costs.SLICE])
@pytest.mark.parametrize("overhead", [0, 100 * costs.SLICE])
def test_slices_cover_all_and_are_short(n: int, cost: int, overhead: int) -> None:
    cut = slices(n, cost, overhead)
    assert [i for start, stop in cut for i in range(start, stop)] == list(range(n))
    assert all(stop - start == 1 or (stop - start) * cost <= max(costs.SLICE, overhead) for start, stop in cut)

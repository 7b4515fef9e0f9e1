"""An event loop in virtual time, without I/O. It runs one turn when it is asked to."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


_MOST_TURNS = 100
_START = 1_800_000_000.0  # seconds since the epoch


class Clock:
    """The time of a simulation."""

    def __init__(self) -> None:
        self.elapsed = 0.0  # seconds

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return _START + self.elapsed


class _NoSockets:
    """The selector of a loop without I/O."""

    def select(self, _: float | None) -> list[Any]:
        """Return no events, at once."""
        return []

    def close(self) -> None:
        """Do nothing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process of the simulation. Its callbacks run in order, as asyncio promises.

    Args:
        clock: the time of the simulation.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._selector = _NoSockets()
        self._clock = clock
        self._clock_resolution = 1e-9
        self.failures: list[str] = []
        self.set_exception_handler(self._note_failure)

    def _note_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _process_events(self, events: list[Any]) -> None:
        assert not events

    def _write_to_self(self) -> None:
        """Do nothing: nothing runs in another thread."""

    def run_in_executor(  # type: ignore[override]  # simpler types
        self, _: Any, function: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Run a function at once: threads would finish at a time that the seed does not decide."""
        future: asyncio.Future[_T] = self.create_future()
        future.set_result(function(*args))
        return future

    def time(self) -> float:
        """Return the seconds since the simulation began."""
        return self._clock.elapsed

    @property
    def is_ready(self) -> bool:
        """Whether a callback or a timer waits to be run."""
        timer = self.next_timer
        return bool(self._ready) or (timer is not None and timer <= self._clock.elapsed)  # type: ignore[attr-defined]

    @property
    def next_timer(self) -> float | None:
        """The moment of the earliest timer."""
        timers = self._scheduled  # type: ignore[attr-defined]
        if timers and not timers[0].cancelled():
            moment: float = timers[0].when()
            return moment
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)

    def run_turn(self) -> None:
        """Run the callbacks that are ready, and those of timers that are due."""
        with self.current():
            self._run_once()  # type: ignore[attr-defined]

    def end(self) -> None:
        """Cancel all tasks, and let them end."""
        for _ in range(_MOST_TURNS):
            for task in asyncio.all_tasks(self):
                task.cancel()
            if not self._ready:  # type: ignore[attr-defined]
                break
            self.run_turn()
        self.close()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the running loop, as for code that creates futures."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    def spawn(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start a task."""
        task = self.create_task(coroutine)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a killed process leaves its tasks
        return task


def run_now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never has to wait; return its result."""
    loop = VirtualLoop(Clock())
    try:
        with loop.current():
            coroutine.send(None)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    finally:
        loop.close()
    raise AssertionError("the coroutine waits")

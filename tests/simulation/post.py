"""Requests of clients to workers: they arrive late, at any worker, and their answers arrive late or never."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from service.errors import WagerError
from tests.simulation.event_loop import VirtualLoop
from tests.simulation.log_rounds import ViolationError
from tests.simulation.workers import SimulatedWorker

Ask = Callable[[SimulatedWorker], Awaitable[Any]]
"""Calls a use case of a worker."""

Heard = Callable[[Any], None]
"""Checks what a worker answers, when it answers."""

Listen = Callable[[], Heard]
"""Called when a request arrives at a worker: the answer must have been right at some moment since then."""


def heard_by_nobody() -> Heard:
    """Check no answer."""
    return lambda _: None


class LostError(Exception):
    """No answer arrives. Whether the request was carried out is unknown."""


class _Letter(NamedTuple):
    """A request on its way."""

    ask: Ask
    listen: Listen
    future: asyncio.Future[Any]  # of the client


class _Running(NamedTuple):
    """A request that a worker carries out."""

    worker: SimulatedWorker
    task: asyncio.Task[None]


class Post:
    """All requests and answers on their way.

    Args:
        loop: of the clients.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.going: list[_Letter] = []
        self.returning: list[tuple[asyncio.Future[Any], Any]] = []
        self.violations: list[ViolationError] = []
        self._running: dict[asyncio.Future[Any], _Running] = {}

    async def ask(self, ask: Ask, listen: Listen) -> Any:
        """Send a request to some worker; return the answer.

        Raises:
            LostError: if none arrives.
            WagerError: if the worker refuses the request.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.going.append(_Letter(ask, listen, future))
        return await future

    def deliver(self, index: int, worker: SimulatedWorker) -> None:
        """Let a worker carry out a request."""
        letter = self.going.pop(index)
        task = worker.loop.spawn(self._carry_out(letter, worker, letter.listen()))
        self._running[letter.future] = _Running(worker, task)

    async def _carry_out(self, letter: _Letter, worker: SimulatedWorker, heard: Heard) -> None:
        try:
            answer = await letter.ask(worker)
        except WagerError as error:
            answer = error
        except Exception as error:  # noqa: BLE001  a use case must not raise anything else
            self.violations.append(ViolationError(f"a use case raised {error!r}"))
            return
        if self._running.pop(letter.future, None) is None:  # the client has gone
            return
        try:
            heard(answer)
        except ViolationError as violation:
            self.violations.append(violation)
        self.returning.append((letter.future, answer))

    def give_back(self, index: int, *, lost: bool = False) -> None:
        """Let a client read an answer, or lose it."""
        future, answer = self.returning.pop(index)
        with self._loop.current():
            if lost:
                future.set_exception(LostError())
            elif isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def lose(self, worker: SimulatedWorker) -> None:
        """Lose the requests that a worker carries out: it was killed."""
        for future in [future for future, running in self._running.items() if running.worker is worker]:
            self._lose(future)

    def cancel(self, choice: float) -> None:
        """Let a client close its connection while a worker carries out its request; choice is in [0, 1)."""
        if self._running:
            future = list(self._running)[int(choice * len(self._running))]
            worker, task = self._lose(future)
            with worker.loop.current():
                task.cancel()

    def _lose(self, future: asyncio.Future[Any]) -> _Running:
        self.returning.append((future, LostError()))
        return self._running.pop(future)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not (self.going or self.returning or self._running)

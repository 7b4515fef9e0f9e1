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
"""Checks what a worker answers, at the moment when it answers."""


class LostError(Exception):
    """No answer arrives. Whether the request was carried out is unknown."""


class _Letter(NamedTuple):
    """A request on its way."""

    ask: Ask
    heard: Heard
    future: asyncio.Future[Any]  # of the client


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
        self._running: dict[asyncio.Future[Any], SimulatedWorker] = {}

    async def ask(self, ask: Ask, heard: Heard) -> Any:
        """Send a request to some worker; return the answer.

        Raises:
            LostError: if none arrives.
            WagerError: if the worker refuses the request.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.going.append(_Letter(ask, heard, future))
        return await future

    def deliver(self, index: int, worker: SimulatedWorker) -> None:
        """Let a worker carry out a request."""
        letter = self.going.pop(index)
        self._running[letter.future] = worker
        worker.loop.spawn(self._carry_out(letter, worker))

    async def _carry_out(self, letter: _Letter, worker: SimulatedWorker) -> None:
        try:
            answer = await letter.ask(worker)
            letter.heard(answer)
        except WagerError as error:
            answer = error
            self._hear(letter, error)
        except ViolationError as violation:
            self.violations.append(violation)
            return
        except Exception as error:  # noqa: BLE001  a use case must not raise anything else
            self.violations.append(ViolationError(f"a use case raised {error!r}"))
            return
        self._running.pop(letter.future, None)
        self.returning.append((letter.future, answer))

    def _hear(self, letter: _Letter, error: WagerError) -> None:
        try:
            letter.heard(error)
        except ViolationError as violation:
            self.violations.append(violation)

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
        lost = [future for future, there in self._running.items() if there is worker]
        for future in lost:
            del self._running[future]
            self.returning.append((future, LostError()))

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not (self.going or self.returning or self._running)

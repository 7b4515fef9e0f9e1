"""One order in which the store runs the scripts of several operations, on the real code."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from service.errors import StoreError, StoreUnavailableError
from service.rounds.group_commit import GroupCommit
from service.rounds.sessions import ModelSession
from service.schemas.models import ModelDefinition
from service.store.redis import redis_store
from service.store.scripts import Script
from tests.service.sample_models import definition
from tests.simulation.event_loop import Clock
from tests.simulation.inspection import Inspection
from tests.simulation.log_rounds import ViolationError
from tests.simulation.network import Line, Network
from tests.simulation.operations import MODEL, Search
from tests.simulation.redis_server import RedisServer
from tests.simulation.reference_fold import bits_of
from tests.simulation.truths import Truths
from tests.simulation.workers import PLAIN, SimulatedWorker

_AHEAD = 1000.0
"""Seconds by which the store's clock is ahead: by it, every window has ended; by those of the workers, none has."""

_TRIES = 3

_COMMANDS = (redis_store,)


def _is_script(value: object) -> bool:
    return isinstance(value, Script)


def _commits_of(session: ModelSession) -> tuple[GroupCommit[Any, Any], GroupCommit[Any, Any]]:
    return session.predictor._commits, session.feedback._commits


def _digest_of(replies: Iterable[tuple[Any, Any]]) -> str:
    return hashlib.sha1(repr([reply for _, reply in replies]).encode(), usedforsecurity=False).hexdigest()


class Base:
    """The server with the model, as every schedule finds it, before any worker has loaded it.

    Args:
        policies: of the model.
    """

    def __init__(self, policies: Mapping[str, Any]) -> None:
        self.clock, network = Clock(), Network()
        self.server = RedisServer(lambda: self.clock.now)
        worker = SimulatedWorker("w", self.clock, network, [0], PLAIN, visits=False)
        made = ModelDefinition.model_validate(definition(MODEL, **policies))
        task = worker.loop.spawn(worker.registry.create(made))
        while not task.done():
            worker.loop.run_turn()
            for line in network.busy():
                line.execute(self.server)
                line.deliver()
        worker.loop.end()
        for source in {script.source for module in _COMMANDS for script in vars(module).values() if _is_script(script)}:
            self.server.look("SCRIPT", "LOAD", source)
        self.server.offset = _AHEAD
        self.server.keep()


class Schedule:
    """One schedule, up to some point.

    Args:
        base: the server, whose data is restored.
        search: what is done, and what may fail.
    """

    def __init__(self, base: Base, search: Search) -> None:
        self._server, self._search = base.server, search
        self._operations = {each.name: each for each in search.operations}
        self._server.restore()
        self._network = Network()
        self.truths = Truths(self._server, lambda: (base.clock.now, base.clock.now), lambda: base.clock.elapsed)
        self.truths.note(MODEL)
        self._inspection = Inspection(self.truths)
        workers = (SimulatedWorker(f"w{n}", base.clock, self._network, [n], PLAIN, visits=False) for n in (0, 1))
        self._workers: dict[int, SimulatedWorker] = dict(enumerate(workers))
        self._dead: list[SimulatedWorker] = []
        self._tasks: dict[str, Any] = {}
        self._tries: dict[str, int] = dict.fromkeys(self._operations, 0)
        self._read: dict[str, list[str]] = {"w0": [], "w1": []}
        self._has_failed = False  # the one fault has happened
        self._settle()

    @property
    def choices(self) -> list[tuple[str, str]]:
        """What may happen next: an operation starts, a late reply is read, a worker's next script runs, or a fault."""
        waiting = [("start", name) for name in self._operations if self._may_start(name)]
        lines = self._network.busy()
        waiting += [("read", line.owner) for line in lines if line.replies]
        waiting += [("run", line.owner) for line in lines if line.commands]
        if self._has_failed:
            return waiting
        faults = [fault for fault in self._search.faults if fault != "cancel"]
        waiting += [(fault, line.owner) for line in lines if line.commands for fault in faults]
        running = [name for name, task in self._tasks.items() if not task.done()]
        return waiting + [("cancel", name) for name in running if "cancel" in self._search.faults]

    def _may_start(self, name: str) -> bool:
        after = self._operations[name].after
        return bool(after) and name not in self._tasks and self._is_done(after)

    def _is_done(self, name: str) -> bool:
        return name in self._tasks and self._tasks[name].done()

    def make(self, choice: tuple[str, str]) -> None:
        """Let one thing happen.

        Raises:
            ViolationError: if it breaks a promise.
        """
        what, which = choice
        lines = [line for line in self._network.busy() if line.owner == which]
        if what == "start":
            self._start(which)
        elif what == "cancel":
            self._cancel(which)
        elif what == "read":
            next(line for line in lines if line.replies).deliver()
        else:
            self._run(what, next(line for line in lines if line.commands))
        self._settle()

    def _run(self, what: str, line: Line) -> None:
        self._has_failed |= what != "run"
        if what != "kill before":
            command, reply = line.execute(self._server)
            self._inspection.look(command, reply)
            self._read[line.owner].append(hashlib.sha1(repr((command, reply)).encode()).hexdigest())
        if what == "run":
            if not self._search.is_late:
                line.deliver()
        elif what == "lose reply of":
            line.cut()
        else:
            self._kill(line.owner)

    def _cancel(self, name: str) -> None:
        """Let a client close its connection; it repeats the operation."""
        self._has_failed = True
        worker = next(each for each in self._workers.values() if each.name == self._at[name])
        with worker.loop.current():
            self._tasks[name].cancel()

    def _kill(self, owner: str) -> None:
        """Kill a worker. The clients repeat its operations at the other one."""
        number = next(number for number, worker in self._workers.items() if worker.name == owner)
        self._dead.append(self._workers[number])
        self._network.drop(owner)
        self._workers[number] = self._workers[1 - number]
        self._read[owner] = ["dead"]
        for name in [name for name, task in self._tasks.items() if not task.done() and self._at[name] == owner]:
            self._start(name)

    @property
    def _at(self) -> dict[str, str]:
        return {name: task.get_name() for name, task in self._tasks.items()}

    def _start(self, name: str) -> None:
        worker = self._workers[self._operations[name].worker]
        self._tries[name] += 1
        self._tasks[name] = worker.loop.spawn(self._operations[name].do(self.truths, worker))
        self._tasks[name].set_name(worker.name)

    def _settle(self) -> None:
        """Run everything that only one worker sees."""
        for name, operation in self._operations.items():
            if not operation.after and name not in self._tasks:
                self._start(name)
        while True:
            ready = [worker for worker in self._workers.values() if worker.loop.is_ready]
            lines = [line for line in self._network.busy() if line.commands]
            plain = [line for line in lines if line.commands[0][0][0][:4] != "EVAL"]
            for worker in ready:
                worker.loop.run_turn()
            for line in plain:
                line.execute(self._server)
                line.deliver()
            if not ready and not plain and not self._repeat():
                break
        self._inspection.check(list(self._workers.values()))

    def _repeat(self) -> bool:
        """Repeat operations that a fault has ended; return whether there are some."""
        failed = [name for name, task in self._tasks.items() if task.done() and self._must_repeat(name, task)]
        for name in failed:
            self._start(name)
        return bool(failed)

    def _must_repeat(self, name: str, task: Any) -> bool:
        error = StoreUnavailableError("cancelled") if task.cancelled() else task.exception()
        if error is None:
            return False
        if isinstance(error, StoreError) and self._has_failed and self._tries[name] < _TRIES:
            return True
        raise error

    def key(self) -> str:
        """Return a digest of the state."""
        workers = [
            (
                sorted(self._read[worker.name]),
                repr(worker.rng.bit_generator.state),
                [(s.replica.round_count, s.replica.change_count, s.replica.lock.locked()) for s in worker.loaded],
                [repr([each.items for each in commits._waiting]) for s in worker.loaded for commits in _commits_of(s)],
                [
                    bits_of(s.replica.model, s.replica.state)
                    for s in worker.loaded
                    if s.replica.state is not None and not s.replica.lock.locked()
                ],
            )
            for worker in self._workers.values()
        ]
        lines = self._network.busy()
        sent = [(each.owner, [repr(words) for words, _ in each.commands], _digest_of(each.replies)) for each in lines]
        done = [(name, self._is_done(name)) for name in self._operations if name in self._tasks]
        return hashlib.sha1(repr((self._server.digest(), workers, sent, done, self._has_failed)).encode()).hexdigest()

    def check_end(self) -> None:
        """Check a schedule in which nothing can happen any more.

        Raises:
            ViolationError: if an operation does not end, or a promise is broken.
        """
        waiting = [name for name in self._operations if not self._is_done(name)]
        if waiting:
            raise ViolationError(f"{waiting} have not ended")
        self.truths[MODEL].check_end(0.0)

    def close(self) -> None:
        """End all tasks."""
        for worker in {id(each): each for each in [*self._workers.values(), *self._dead]}.values():
            worker.loop.end()

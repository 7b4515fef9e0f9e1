"""A simulation: several workers, their clients, a network and a server, in one process. The seed decides all else."""

import asyncio
import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from service.choice.requests import PredictionRequest
from service.errors import OpenPredictionsFullError
from service.schemas.models import ModelDefinition
from service.store.redis import redis_store
from service.store.scripts import Script
from tests.service.sample_models import SIZE, definition
from tests.simulation.changer import Changer
from tests.simulation.clients import Crowd
from tests.simulation.event_loop import Clock, VirtualLoop
from tests.simulation.faults import Fault
from tests.simulation.fleet import Fleet
from tests.simulation.inspection import Inspection
from tests.simulation.log_rounds import ViolationError
from tests.simulation.models import MODELS, context_of
from tests.simulation.network import Line, Network
from tests.simulation.post import Post
from tests.simulation.redis_server import RedisServer
from tests.simulation.sabotage import Sabotage
from tests.simulation.truths import Truths
from tests.simulation.workers import PLAIN, Settings, SimulatedWorker

_WORKERS, _CLIENTS = 3, 10
_SHARE_OF_TIME = 0.03
"""Share of the steps in which time passes although something else could happen."""

_SHORTEST, _LONGEST = 0.0005, 0.02  # seconds of such a step

_LONGEST_WINDOW = 600.0  # seconds; see `models`

_REST, _LATEST_CLOSING = 10.0, 4.0
"""Seconds after the last request, and seconds after the end of a window, until its predictions are closed."""

_MOST_STEPS_TO_END = 100_000
"""Steps after the clients stop. More mean that a worker goes round in circles."""

_SCRIPTS = {script.sha: name for name, script in vars(redis_store).items() if isinstance(script, Script)}


class Figures(NamedTuple):
    """What a run did."""

    steps: int
    rounds: int
    acknowledged: int
    predicted: int
    lost: int  # acknowledged rounds that the store lost in a fault that permits it
    snapshots: int
    changes: int
    digest: str  # of everything that happened


class World:
    """One run.

    Args:
        seed: decides everything.
        faults: in the order of their steps.
        settings: of the workers; 0 or 1 replicas.
        models: what to create, by name.
        trace: gets a line for each event.
        clock: the time of the simulation; a new one by default.
        server: by that clock; a new one by default.
    """

    def __init__(
        self,
        seed: int,
        faults: Sequence[Fault],
        settings: Settings = PLAIN,
        models: Mapping[str, Mapping[str, Any]] = MODELS,
        trace: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        server: RedisServer | None = None,
    ) -> None:
        self._random, self._faults, self._trace = random.Random(f"world {seed}"), list(faults)[::-1], trace
        self._digest, self.steps, self._skew = hashlib.sha256(), 0, 0.0
        self.clock, self.network = clock or Clock(), Network()
        self.server = server or RedisServer(lambda: self.clock.now)
        self._outside = VirtualLoop(self.clock)  # the loop of all clients
        self.post = Post(self._outside)
        self.fleet = Fleet(_WORKERS, self.clock, self.network, seed, settings)
        self.truths = Truths(self.server, self._reach, lambda: self.clock.elapsed, settings.most_open_bytes)
        self._inspection = Inspection(self.truths)
        self._sabotage = Sabotage(
            self.fleet, self.network, self.post, self.server, self.truths, self._execute, self._random
        )
        self._players: list[asyncio.Task[None]] = []
        self._most_steps = math.inf
        self._create(models)
        self.crowd = Crowd(self.post, self.truths, seed)
        plays = [self.crowd.play() for _ in range(_CLIENTS)] + [Changer(self.crowd, seed).play()]
        self._players = [self._outside.spawn(play) for play in plays]

    def run(self, steps: int) -> Figures:
        """Run some steps, then let all finish without faults; return the figures.

        Raises:
            ViolationError: if a promise is broken.
        """
        while self.steps < steps:
            while self._faults and self._faults[-1].step <= self.steps:
                self._make(self._faults.pop())
            self._step()
        self._finish()
        counts = self.crowd.acknowledged, self.crowd.predicted, self._sabotage.lost, self._inspection.snapshots
        rounds, changes = self.truths.round_count, self.truths.change_count
        return Figures(self.steps, rounds, *counts, changes, self._digest.hexdigest()[:16])

    def close(self) -> None:
        """End all tasks. Nothing that they still do has an effect."""
        self.fleet.end()
        self._outside.end()

    def _reach(self) -> tuple[float, float]:
        """Return the earliest and the latest moment that any clock may have shown."""
        return self.clock.now - self.clock.elapsed - self._skew, self.clock.now + self._skew

    def _create(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        """Create the models, without faults."""
        for name, fields in models.items():
            made = ModelDefinition.model_validate(definition(name, **fields))
            self._run(self.fleet.workers[0], self.fleet.workers[0].registry.create(made))
            self.truths.note(name)
        self.server.keep()

    def _run(self, worker: SimulatedWorker, coroutine: Any) -> Any:
        """Run steps until a worker has done something; return the result."""
        task = worker.loop.spawn(coroutine)
        while not task.done():
            self._step()
        return task.result()

    def _finish(self) -> None:
        """Let all requests end, and all windows close, without faults; then compare everything."""
        self.crowd.is_over, self.server.is_full, self.server.has_replica = True, False, True
        self.server.has_bad_disk = False
        self._most_steps = self.steps + _MOST_STEPS_TO_END
        while not all(player.done() for player in self._players) or not self.post.is_quiet:
            self._step()
        self.server.offset = self._skew + _LONGEST_WINDOW  # every window ends
        ends_at = self.clock.elapsed + _REST
        while self.clock.elapsed < ends_at:
            self._step()
        for truth in self.truths:
            truth.check_end(self.clock.now + self.server.offset - _LATEST_CLOSING)
        self.truths.check_gone()
        for name in self.truths.names:
            self._predict_once(name)

    def _predict_once(self, name: str) -> None:
        """Check that a model still answers: a new worker loads its snapshot and its log."""
        if self.truths[name].exists:
            worker, context = self.fleet.start(), context_of(name, [1.0] * SIZE)
            try:
                self._run(worker, worker.rounds.predict(name, PredictionRequest(context, None, False)))
            except OpenPredictionsFullError:
                pass  # decided, but `Truth.note_refused` has found no room for it
            except Exception as error:
                raise ViolationError(f"model {name} does not answer any more: {error!r}") from error

    def _make(self, fault: Fault) -> None:
        self._note(fault)
        self._sabotage.make(fault, self.clock)
        offsets = [self.server.offset, *(worker.wall_offset for worker in self.fleet.workers)]
        self._skew = max(self._skew, *map(abs, offsets))

    def _step(self) -> None:
        """Let one thing happen that can happen now."""
        if self.steps > self._most_steps:
            raise ViolationError("the run does not end")
        choices = self._choices()
        if not choices or self._random.random() < _SHARE_OF_TIME:
            self._let_time_pass(hurry=not choices)
        else:
            choices[int(self._random.random() * len(choices))]()
        self.steps += 1
        if self.post.violations:
            raise self.post.violations[0]
        self._inspection.check(self.fleet.workers)
        for player in self._players:
            if player.done():
                player.result()

    def _choices(self) -> list[Callable[[], None]]:
        """Return what can happen now."""
        post, running = self.post, self.fleet.running(self.steps)
        found: list[Callable[[], None]] = [
            partial(self._run_turn, worker) for worker in running if worker.loop.is_ready
        ]
        if self._outside.is_ready:
            found.append(self._run_clients)
        for line in self.network.busy():
            if line.commands:
                found.append(partial(self._execute, line))
            if line.replies:
                found.append(partial(self._deliver_reply, line))
        found += [partial(self._deliver_request, i) for i in range(len(post.going))]
        return found + [partial(self._deliver_answer, i) for i in range(len(post.returning))]

    def _note(self, *words: object) -> None:
        line = " ".join(map(str, (self.steps, f"{self.clock.elapsed:.6f}", *words)))
        self._digest.update(line.encode())
        if self._trace is not None:
            self._trace(line)

    def _run_turn(self, worker: SimulatedWorker) -> None:
        self._note("turn", worker.name)
        worker.loop.run_turn()

    def _run_clients(self) -> None:
        self._note("clients")
        self._outside.run_turn()

    def _execute(self, line: Line) -> None:
        command, reply = line.execute(self.server)
        self._note("execute", line.owner, _shown(command), _digest_of(reply))
        self._inspection.look(command, reply)
        self._sabotage.note_appended()

    def _deliver_reply(self, line: Line) -> None:
        self._note("reply", line.owner)
        line.deliver()

    def _deliver_request(self, index: int) -> None:
        worker = self._random.choice(self.fleet.receiving(self.steps))
        self._note("request", worker.name)
        self.post.deliver(index, worker)

    def _deliver_answer(self, index: int) -> None:
        self._note("answer")
        self.post.give_back(index)

    def _let_time_pass(self, *, hurry: bool) -> None:
        loops = [self._outside, *(worker.loop for worker in self.fleet.running(self.steps))]
        timers = [timer for loop in loops if (timer := loop.next_timer) is not None]
        now = self.clock.elapsed
        least = max(min(timers, default=now), now)
        self.clock.elapsed = least if hurry else min(least, now + self._random.uniform(_SHORTEST, _LONGEST))
        self._note("time")


def _shown(command: tuple[Any, ...]) -> str:
    """Return a command as the history has it: its name, that of its script, and a digest of all."""
    script = _SCRIPTS.get(command[1], "") if len(command) > 1 else ""
    return f"{command[0]} {script} {_digest_of(command)}"


def _digest_of(value: object) -> str:
    return hashlib.sha1(repr(value).encode(), usedforsecurity=False).hexdigest()[:8]

"""Makes the planned faults."""

import random
from collections import deque
from collections.abc import Callable

from tests.simulation.event_loop import Clock
from tests.simulation.faults import Fault, Kind
from tests.simulation.fleet import Fleet
from tests.simulation.log_rounds import ViolationError
from tests.simulation.network import Line, Network
from tests.simulation.post import Post
from tests.simulation.redis_server import RedisServer
from tests.simulation.truths import Truths

_REMEMBERED = 10
"""Commands that appended to logs."""

_LONGEST_ABSENCE = 600
"""Steps in which a worker gets no requests after such a loss, so that others use the lost numbers."""


class Sabotage:
    """Makes faults.

    Args:
        fleet: the workers.
        network: their connections.
        post: the requests of clients.
        server: the server.
        truths: learn what the server loses.
        execute: lets the server run the oldest command of a line.
        rng: decides how much of what is on its way arrives.
    """

    def __init__(
        self,
        fleet: Fleet,
        network: Network,
        post: Post,
        server: RedisServer,
        truths: Truths,
        execute: Callable[[Line], None],
        rng: random.Random,
    ) -> None:
        self._fleet, self._network, self._post, self._server = fleet, network, post, server
        self._truths, self._execute, self._random = truths, execute, rng
        self.lost = 0  # acknowledged rounds
        self._commands_before: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # entries, and commands before them

    def note_appended(self) -> None:
        """Note a command that may have appended rounds or a change."""
        n = self._appended
        while self._commands_before and self._commands_before[-1][0] > n:  # the store has lost them
            self._commands_before.pop()
        if not self._commands_before or n > self._commands_before[-1][0]:
            self._commands_before.append((n, self._server.done - 1))

    @property
    def _appended(self) -> int:
        """The number of rounds and changes."""
        return self._truths.round_count + self._truths.change_count

    def _commands_since(self, n: int) -> int:
        """Return the number of commands since those that appended the last n rounds and changes, with the first."""
        kept = self._appended - n
        return self._server.done - min(
            (commands for after, commands in self._commands_before if after > kept), default=self._server.done
        )

    def make(self, fault: Fault, clock: Clock) -> None:
        """Make a fault.

        Raises:
            ViolationError: if the server loses a round that its replica has confirmed.
        """
        worker = self._fleet.workers[int(fault.choice * len(self._fleet.workers))]
        match fault.kind:
            case Kind.KILL:
                self._kill(fault.choice)
            case Kind.CUT:
                self._network.cut(worker.name)
            case Kind.LOSE_ANSWER | Kind.CANCEL:
                self._disconnect_client(fault)
            case Kind.RESTART | Kind.LOSE_COMMANDS:
                self._restart_store(int(fault.size))
            case Kind.LOSE_APPENDED:
                worker.avoided_until = fault.step + self._random.randrange(_LONGEST_ABSENCE)
                self._restart_store(self._commands_since(int(fault.size)))
            case Kind.WORKER_CLOCK:
                worker.wall_offset += fault.size
            case Kind.PAUSE:
                worker.stopped_until = fault.step + int(fault.size)
            case Kind.AVOID:
                worker.avoided_until = fault.step + int(fault.size)
            case Kind.SLEEP:
                clock.elapsed += fault.size
            case _:
                self._change_server(fault)

    def _disconnect_client(self, fault: Fault) -> None:
        if fault.kind is Kind.CANCEL:
            self._post.cancel(fault.choice)
        elif self._post.returning:
            self._post.give_back(int(fault.choice * len(self._post.returning)), lost=True)

    def _change_server(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.FULL | Kind.FREE:
                self._server.is_full = fault.kind is Kind.FULL
            case Kind.FULL_DISK | Kind.FREE_DISK:
                self._server.has_bad_disk = fault.kind is Kind.FULL_DISK
            case Kind.STORE_CLOCK:
                self._server.offset += fault.size
            case Kind.NO_REPLICA | Kind.REPLICA:
                self._server.has_replica = fault.kind is Kind.REPLICA

    def _kill(self, choice: float) -> None:
        """Kill a worker. The server still runs some of the commands that are on their way."""
        worker = self._fleet.workers[int(choice * len(self._fleet.workers))]
        for line in [line for line in self._network.busy() if line.owner == worker.name]:
            for _ in range(self._random.randrange(len(line.commands) + 1)):
                self._execute(line)
        self._network.drop(worker.name)
        self._post.lose(worker)
        self._fleet.replace(worker)

    def _restart_store(self, n: int) -> None:
        """Restart the store, without its last n commands."""
        self._network.cut()
        self._server.forget_scripts()
        if not n:
            return
        self._server.lose(n)
        gone = self._truths.lose()
        self.lost += len(gone)
        if gone and self._fleet.settings.replicas:
            raise ViolationError(f"the replica had {gone}, and they are lost")

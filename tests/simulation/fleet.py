"""The workers of a simulation."""

from tests.simulation.event_loop import Clock
from tests.simulation.network import Network
from tests.simulation.workers import Settings, SimulatedWorker


class Fleet:
    """All workers. A killed one is replaced at once.

    Args:
        n: number of workers.
        clock: the time of the simulation.
        network: connects them with the server.
        seed: of their random numbers.
        settings: theirs.
    """

    def __init__(self, n: int, clock: Clock, network: Network, seed: int, settings: Settings) -> None:
        self._clock, self._network, self._seed = clock, network, seed
        self.settings = settings
        self.workers: list[SimulatedWorker] = []
        self._dead: list[SimulatedWorker] = []  # kept: the tasks of a killed process must not end
        for _ in range(n):
            self.start()

    def running(self, step: int) -> list[SimulatedWorker]:
        """Return the workers that are not stopped in a step."""
        return [worker for worker in self.workers if worker.stopped_until <= step]

    def receiving(self, step: int) -> list[SimulatedWorker]:
        """Return the workers that get requests in a step: all if none does."""
        return [worker for worker in self.workers if worker.avoided_until <= step] or self.workers

    def start(self) -> SimulatedWorker:
        """Start another worker."""
        number = len(self.workers) + len(self._dead) + 1
        seed = [self._seed, number]
        self.workers.append(SimulatedWorker(f"w{number}", self._clock, self._network, seed, self.settings))
        return self.workers[-1]

    def replace(self, worker: SimulatedWorker) -> None:
        """Kill a worker, and start another one."""
        self.workers.remove(worker)
        self._dead.append(worker)
        self.start()

    def end(self) -> None:
        """End all tasks."""
        for worker in [*self.workers, *self._dead]:
            worker.loop.end()

"""Actions at given times, started even while earlier ones are unfinished."""

import heapq
import time
from collections.abc import Callable

from service.load.timing.alarm import make_alarm
from service.load.timing.histogram import Histogram

Action = Callable[[float], None]
"""An action. It receives the time at which it was due."""


class Pacer:
    """Starts actions when they are due, in the running event loop. Times are seconds of `time.perf_counter`.

    Attributes:
        lag: how late actions were started, which is the driver's own share of the latencies.
    """

    def __init__(self) -> None:
        self.lag = Histogram()
        self._due: list[tuple[float, int, Action]] = []
        self._order = 0  # order of actions that are due at the same time
        self._alarm = make_alarm(self._ring)

    def at(self, due: float, action: Action) -> None:
        """Schedule an action."""
        self._order += 1
        heapq.heappush(self._due, (due, self._order, action))
        if self._due[0][1] == self._order:
            self._alarm.set(due)

    def stop(self) -> list[tuple[float, Action]]:
        """Start no more actions. Return the remaining ones with their times, in order."""
        self._alarm.close()
        left, self._due = sorted(self._due), []
        return [(due, action) for due, _, action in left]

    def _ring(self) -> None:
        while self._due and self._due[0][0] <= (now := time.perf_counter()):
            due, _, action = heapq.heappop(self._due)
            self.lag.add(now - due)
            action(due)
        if self._due:
            self._alarm.set(self._due[0][0])

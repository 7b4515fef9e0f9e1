"""`python -m tests.simulation.interleavings`: search every interleaving of a few operations of two workers.

Two predictions, three feedbacks (one a duplicate, one a contradiction), an expiry, a snapshot with trimming, and a
change of labels, rules, costs and budget; in each schedule, at most one reply is lost or one worker dies, at any
script.

Between two scripts a worker computes alone. Commands that are no scripts touch what no other operation reads, so they
run at once. The search visits each state once: what the store holds and, for each worker, its replica, its random
numbers, the replies that it has read and the commands that it has sent. The number of schedules is the number of paths.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence

from tests.simulation.operations import OPERATIONS, Operation
from tests.simulation.schedules import Base, Schedule

Choice = tuple[str, str]


class Search:
    """Visits every state.

    Args:
        operations: what is done.
        faults: whether one reply is lost, or one worker dies.
    """

    def __init__(self, operations: Sequence[Operation] = OPERATIONS, *, faults: bool = True) -> None:
        self._base, self._operations, self._faults = Base(), operations, faults
        self._paths: dict[str, int] = {}
        self.transitions = 0

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self._paths)

    def count(self) -> int:
        """Return the number of schedules, and check all of them.

        Raises:
            ViolationError: if one breaks a promise; its choices are in the notes of the error.
        """
        return self._count((), Schedule(self._base, self._operations))

    def _count(self, prefix: tuple[Choice, ...], schedule: Schedule) -> int:
        """Return the number of schedules that begin with some choices; the schedule has made them."""
        self.transitions += 1
        key = schedule.key()
        if key in self._paths:
            schedule.close()
            return self._paths[key]
        choices = [each for each in schedule.choices if self._faults or each[0] in ("start", "run")]
        if not choices:
            self._end(prefix, schedule)
        self._paths[key] = 1 if not choices else 0
        for choice in choices:  # the first one goes on with this schedule, and each of the others repeats it
            going_on = schedule if choice is choices[0] else self._repeated(prefix)
            self._make(going_on, (*prefix, choice))
            self._paths[key] += self._count((*prefix, choice), going_on)
        return self._paths[key]

    def _repeated(self, prefix: tuple[Choice, ...]) -> Schedule:
        schedule = Schedule(self._base, self._operations)
        for choice in prefix:
            schedule.make(choice)
        return schedule

    def _make(self, schedule: Schedule, choices: tuple[Choice, ...]) -> None:
        """Make the last of some choices."""
        try:
            schedule.make(choices[-1])
        except Exception as error:
            error.add_note(f"after {choices}")
            schedule.close()
            raise

    def _end(self, choices: tuple[Choice, ...], schedule: Schedule) -> None:
        try:
            schedule.check_end()
        except Exception as error:
            error.add_note(f"after {choices}")
            raise
        finally:
            schedule.close()


def main() -> None:
    """Search, and print the number of schedules."""
    names = [each.name for each in OPERATIONS]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.interleavings", description=__doc__)
    parser.add_argument("--only", nargs="+", default=names, choices=names, help="the operations")
    parser.add_argument("--without-faults", dest="faults", action="store_false", help="lose nothing, kill nobody")
    arguments, started = parser.parse_args(), time.monotonic()
    logging.disable(logging.CRITICAL)
    search = Search([each for each in OPERATIONS if each.name in arguments.only], faults=arguments.faults)
    schedules, seconds = search.count(), time.monotonic() - started
    figures = f"{schedules:,} schedules, {search.states:,} states, {search.transitions:,} transitions"
    sys.stdout.write(f"{figures}, {seconds:.0f} s\n")


if __name__ == "__main__":
    main()

"""`python -m tests.simulation.interleavings NAME`: search every interleaving of a few operations of two workers.

- rounds: two predictions, three feedbacks (one a duplicate, one a contradiction), and an expiry;
- changes: a prediction, its feedback, an expiry, a snapshot with trimming, and a change of labels, rules, costs and
  budget;
- commits: three predictions of one worker, which share group commits, their feedback, and a change;
- activation: an inactive prediction, its activation, two feedbacks, and an expiry, with replies that are read late;
- flag: one user's evaluations by both workers, feedback for one, an expiry, and a change of labels.

In each schedule at most one thing fails: a reply is lost or a worker dies, at any script, or a client cancels its
request.

Between two scripts a worker computes alone. Commands that are no scripts touch what no other operation reads, so they
run at once. The search visits each state once: what the store holds and, for each worker, its replica, its random
numbers, the replies that it has read and the commands that it has sent. The number of schedules is the number of paths.
"""

import argparse
import logging
import sys
import time

from tests.simulation.operations import SEARCHES, Search
from tests.simulation.schedules import Base, Schedule

Choice = tuple[str, str]


class Visits:
    """Visits every state.

    Args:
        search: what is done, and what may fail.
    """

    def __init__(self, search: Search) -> None:
        self._base, self._search = Base(search.policies), search
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
        return self._count((), Schedule(self._base, self._search))

    def _count(self, prefix: tuple[Choice, ...], schedule: Schedule) -> int:
        """Return the number of schedules that begin with some choices; the schedule has made them."""
        self.transitions += 1
        key = schedule.key()
        if key in self._paths:
            schedule.close()
            return self._paths[key]
        choices = schedule.choices
        if not choices:
            self._end(prefix, schedule)
        self._paths[key] = 1 if not choices else 0
        for choice in choices:  # the first one goes on with this schedule, and each of the others repeats it
            going_on = schedule if choice is choices[0] else self._repeated(prefix)
            self._make(going_on, (*prefix, choice))
            self._paths[key] += self._count((*prefix, choice), going_on)
        return self._paths[key]

    def _repeated(self, prefix: tuple[Choice, ...]) -> Schedule:
        schedule = Schedule(self._base, self._search)
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
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.interleavings", description=__doc__)
    parser.add_argument("name", nargs="?", default="rounds", choices=SEARCHES, help="what is searched")
    parser.add_argument("--only", nargs="+", help="the operations")
    parser.add_argument("--without-faults", dest="faults", action="store_false", help="nothing fails")
    arguments, started = parser.parse_args(), time.monotonic()
    search = SEARCHES[arguments.name]
    names = [each.name for each in search.operations]
    if unknown := set(arguments.only or []) - set(names):
        parser.error(f"{arguments.name} has {names}, and not {unknown}")
    chosen = [each for each in search.operations if each.name in (arguments.only or names)]
    search = search._replace(operations=chosen, faults=search.faults if arguments.faults else ())
    logging.disable(logging.CRITICAL)
    visits = Visits(search)
    schedules, seconds = visits.count(), time.monotonic() - started
    figures = f"{schedules:,} schedules, {visits.states:,} states, {visits.transitions:,} transitions"
    sys.stdout.write(f"{figures}, {seconds:.0f} s\n")


if __name__ == "__main__":
    main()

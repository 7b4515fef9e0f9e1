"""`make mutations`: puts known errors into a copy of the sources, one at a time, and asks the tests to notice."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.mutation.catalogue import MUTATIONS
from tests.mutation.mutation import Mutation, mutated
from tests.mutation.trial import BrokenTrialError, Trial, run_control, run_mutation

Outcome = Trial | BrokenTrialError
_T = TypeVar("_T")


def main() -> int:
    """Runs the mutations asked for; 1 if any survives, or if the tests are not green without them."""
    arguments, console, started = _arguments(), Console(), time.monotonic()
    chosen = [one for one in MUTATIONS if all(word in one.name for word in arguments.only)]
    if not chosen:
        sys.exit(f"no mutation has {' and '.join(arguments.only)!r} in its name")
    for one in chosen:
        mutated(one)  # all of them fit, before any of them runs
    with _progress(console) as bar, ThreadPoolExecutor(arguments.jobs) as pool:
        controls = list(_outcomes(run_control, _by_file(chosen), pool, bar, "without any error"))
        red = [reason for _, outcome in controls for reason in _reasons(outcome)]
        verdicts = [] if red else list(_outcomes(run_mutation, chosen, pool, bar, "with an error"))
    if red:
        console.print("without any error these are not green:", *red, sep="\n", markup=False)
        return 1
    survivors = _report(console, sorted(verdicts, key=lambda verdict: MUTATIONS.index(verdict[0])))
    caught, seconds = len(chosen) - survivors, time.monotonic() - started
    console.print(f"{caught} of {len(chosen)} mutations caught, in {seconds:.0f} s with {arguments.jobs} jobs")
    return int(survivors > 0)


def _by_file(mutations: Sequence[Mutation]) -> list[tuple[str, ...]]:
    """The tests of all these mutations, those of each file together."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    return [tuple(together) for _, together in groupby(tests, lambda test: test.partition("::")[0])]


def _reasons(outcome: Outcome) -> tuple[str, ...]:
    """Why a trial is not green."""
    return (str(outcome),) if isinstance(outcome, BrokenTrialError) else outcome.failures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="those with NAME in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at once")
    return parser.parse_args()


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _outcomes(
    run: Callable[[_T], Trial], each: Sequence[_T], pool: ThreadPoolExecutor, bar: Progress, title: str
) -> Iterator[tuple[_T, Outcome]]:
    """What becomes of each, as it comes."""
    running = {pool.submit(run, one): one for one in each}
    for future in bar.track(as_completed(running), total=len(running), description=title):
        error = future.exception()
        yield running[future], error if isinstance(error, BrokenTrialError) else future.result()


def _report(console: Console, verdicts: Sequence[tuple[Mutation, Outcome]]) -> int:
    """Prints the table; how many were not caught."""
    table = Table("mutation", "caught by", "seconds")
    for mutation, outcome in verdicts:
        if isinstance(outcome, BrokenTrialError):
            table.add_row(escape(mutation.name), escape(f"NO VERDICT: {outcome}"), "")
        else:
            caught = outcome.failures[0].partition(" - ")[0].removeprefix("tests/") if outcome.failures else "SURVIVES"
            table.add_row(escape(mutation.name), escape(caught), f"{outcome.seconds:.1f}")
    console.print(table)
    return sum(isinstance(outcome, BrokenTrialError) or not outcome.failures for _, outcome in verdicts)


if __name__ == "__main__":
    sys.exit(main())

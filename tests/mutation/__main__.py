"""`make mutations`: put known errors into a copy of the sources, one at a time, and check that a test fails."""

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.mutation.catalogue import MUTATIONS
from tests.mutation.mutation import Mutation, laws_of, mutated
from tests.mutation.trial import BrokenTrialError, Trial, run_control, run_mutation

Outcome = Trial | BrokenTrialError
_T = TypeVar("_T")


def main() -> int:
    """Run the selected mutations.

    Returns:
        The exit code: 1 if a mutation survives, or if the tests fail without any mutation; otherwise 0.
    """
    arguments, console, started = _arguments(), Console(), time.monotonic()
    chosen = [one for one in MUTATIONS if all(word in one.name for word in arguments.only)]
    if not chosen:
        sys.exit(f"no mutation has {' and '.join(arguments.only)!r} in its name")
    for one in chosen:  # check all of them before running any
        mutated(one)
        laws_of(one)
    with _progress(console) as bar, ThreadPoolExecutor(arguments.jobs) as pool:
        controls = list(_outcomes(run_control, _by_file(chosen), pool, bar, "without mutations"))
        red = [reason for tests, outcome in controls for reason in _reasons(tests, outcome)]
        if red:
            console.print("these tests fail without any mutation:", *red, sep="\n", markup=False)
            return 1
        verdicts = _outcomes(run_mutation, chosen, pool, bar, "with mutations")
        survivors = [mutation.name for mutation, outcome in verdicts if not _caught(console, mutation, outcome)]
    seconds, cpu = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    console.print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} mutations caught, in {seconds:.0f} s with {arguments.jobs} "
        f"jobs, {cpu.ru_utime + cpu.ru_stime:.0f} s of CPU time",
        *(f"not caught: {name}" for name in sorted(survivors)),
        sep="\n",
        markup=False,
    )
    return int(len(survivors) > 0)


def _by_file(mutations: Sequence[Mutation]) -> list[tuple[str, ...]]:
    """Return the tests of all these mutations, grouped by file."""
    tests = sorted({test for mutation in mutations for test in laws_of(mutation)})
    return [tuple(together) for _, together in groupby(tests, lambda test: test.partition("::")[0])]


def _reasons(tests: Sequence[str], outcome: Outcome) -> tuple[str, ...]:
    """Return the reasons why a trial of these tests is not green."""
    return (f"{' '.join(tests)}: {outcome}",) if isinstance(outcome, BrokenTrialError) else outcome.failures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="run only mutations with NAME in their names"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutations to run in parallel")
    return parser.parse_args()


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _outcomes(
    run: Callable[[_T], Trial], each: Sequence[_T], pool: ThreadPoolExecutor, bar: Progress, title: str
) -> Iterator[tuple[_T, Outcome]]:
    """Yield each item with its outcome, in order of completion."""
    running = {pool.submit(run, one): one for one in each}
    for future in bar.track(as_completed(running), total=len(running), description=title):
        error = future.exception()
        yield running[future], error if isinstance(error, BrokenTrialError) else future.result()


def _caught(console: Console, mutation: Mutation, outcome: Outcome) -> bool:
    """Print the verdict on a mutation in one line, and return whether a test failed."""
    if isinstance(outcome, BrokenTrialError):
        console.print(f"NO VERDICT  {mutation.name}: {outcome}", markup=False)
        return False
    by = outcome.failures[0].removeprefix("tests/") if outcome.failures else ""
    line = f"{'caught  ' if by else 'SURVIVES'} {outcome.seconds:5.1f} s  {mutation.name}  {by}"
    console.print(line, markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
    return bool(by)


if __name__ == "__main__":
    sys.exit(main())

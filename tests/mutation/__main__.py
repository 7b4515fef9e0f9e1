"""`make mutations`: put known errors into a copy of the sources, one at a time, and check that a test fails."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation.mutation import ROOT, Mutation, argument_of, mutated, mutations_of
from tests.mutation.of_learners import LEARNERS
from tests.mutation.of_protocol import PROTOCOL, SIMULATED

MUTATIONS = mutations_of(LEARNERS, PROTOCOL, SIMULATED)

_SOURCES = ("learners", "service", "client", "examples", "docs", "tests", "pyproject.toml")
_LONGEST = 600.0  # seconds
_GREEN, _RED = 0, 1  # exit codes of pytest
_BLUNDERS = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError")
# Kernels run as plain Python, because compiling them takes far longer. Compiled ones carry on with inf and nan.
_OPTIONS = ["-q", "-x", "-rfE", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", ""]
_OPTIONS += [f"-Wignore:{what} encountered in scalar:RuntimeWarning" for what in ("overflow", "invalid value")]
_PLAIN = {"NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "", "OPENBLAS_NUM_THREADS": "1"}


def main(arguments: argparse.Namespace) -> int:
    """Run the selected mutations; return 1 if one survives, or if a test fails without any."""
    chosen = [one for one in MUTATIONS if all(word in one.name for word in arguments.only)]
    if not chosen:
        sys.exit(f"no mutation has {' and '.join(arguments.only)!r} in its name")
    tests = sorted({argument_of(one.test) for one in chosen})
    with ThreadPoolExecutor(arguments.jobs) as pool:
        broken = [test for test, failed in zip(tests, pool.map(fails, tests), strict=True) if failed]
        if broken:
            print("these tests fail without any mutation:", *broken, sep="\n")
            return 1
        survivors = []
        for one, failed in zip(chosen, pool.map(is_caught, chosen), strict=True):
            print("caught  " if failed else "SURVIVES", one.name, flush=True)
            survivors += [] if failed else [one.name]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations caught")
    return int(bool(survivors))


def is_caught(mutation: Mutation) -> bool:
    """Check whether the test of a mutation fails with it."""
    return fails(argument_of(mutation.test), mutated(mutation))


def fails(test: str, change: tuple[Path, str] | None = None) -> bool:
    """Run a test on a copy of the sources, with a changed file if there is one; return whether it fails.

    Raises:
        RuntimeError: if there is no verdict, because the program cannot run.
    """
    with tempfile.TemporaryDirectory(prefix="wager-") as folder:
        _copy(Path(folder), _SOURCES)
        if change:
            (Path(folder) / change[0]).write_text(change[1])
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *_OPTIONS, test],
            cwd=folder,
            env=os.environ | _PLAIN | {"COLUMNS": "400"},  # pytest truncates reasons at this width
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
    if done.returncode not in (_GREEN, _RED) or any(blunder in done.stdout for blunder in _BLUNDERS):
        raise RuntimeError(f"no verdict of {test} with {change and change[0]}: {done.stdout[-2000:]}{done.stderr}")
    return done.returncode == _RED


def _copy(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy2(ROOT / name, folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="run mutations with WORD in the name"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutations to run in parallel")
    sys.exit(main(parser.parse_args()))

"""Runs of tests on a copy of the sources, with or without a mutation."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutation.laws import find_law
from tests.mutation.mutation import Mutation, laws_of, mutated
from tests.mutation.symbols import ROOT

SOURCES = ("learners", "service", "client", "examples", "docs", "tests", "pyproject.toml")
LONGEST = 600.0  # time limit of one trial in seconds, on a busy machine

_GREEN, _RED = 0, 1  # exit codes of pytest; all others mean that it could not run the tests
ONLY_COMPILED = (
    # Its scores tie up to rounding, and plain Python rounds differently: it does not fuse multiply and add.
    "test_bandit_perceptrons::test_micro_trace[bandit_perceptrons_linear_paper]",
    # The logarithm of zero is -inf in compiled code, but an error in plain Python.
)
_BLUNDERS = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError")
_KERNELS_ARE_SILENT = (
    # Compiled kernels carry on with inf or nan where plain Python warns or raises, so these do not count as caught.
    " encountered in ",
    "OverflowError: ",
    "ZeroDivisionError: ",
    "ValueError: math domain error",
)
_SILENCED = [f"-Wignore:{what} encountered in scalar:RuntimeWarning" for what in ("overflow", "invalid value")]
_LEAVE_OUT = shutil.ignore_patterns("__pycache__", ".*")


class Trial(NamedTuple):
    """The result of a test run."""

    failures: tuple[str, ...]  # id and reason of each failed test
    seconds: float


class BrokenTrialError(Exception):
    """The tests did not run, so there is no verdict."""


def run_control(tests: Sequence[str]) -> Trial:
    """Run all given tests on an unchanged copy.

    Raises:
        BrokenTrialError: if pytest fails to run or times out.
    """
    with tempfile.TemporaryDirectory(prefix="wager-") as folder:
        _copy(Path(folder))
        return _run(Path(folder), tests)


def run_mutation(mutation: Mutation) -> Trial:
    """Run the tests on a copy with the error, until one fails.

    Raises:
        ValueError: if the error does not fit the sources.
        BrokenTrialError: if pytest fails to run or times out, or if any run would fail, as with an undefined name.

    Returns:
        The trial, with failures of laws only. Arithmetic errors that only plain Python raises do not count.
    """
    (file, text), tests = mutated(mutation), laws_of(mutation)
    with tempfile.TemporaryDirectory(prefix="wager-") as folder:
        _copy(Path(folder))
        (Path(folder) / file).write_text(text)
        trial = _run(Path(folder), ["-x", *tests])
        if trial.failures and not _by_laws(trial).failures:
            trial = _by_laws(_run(Path(folder), tests))
    if any(blunder in failure for failure in trial.failures for blunder in _BLUNDERS):
        raise BrokenTrialError(f"the mutated program does not run: {trial.failures[0]}")
    return trial


def _by_laws(trial: Trial) -> Trial:
    """Drop the failures that compiled kernels would not produce."""
    laws = [failure for failure in trial.failures if not any(noise in failure for noise in _KERNELS_ARE_SILENT)]
    return Trial(tuple(laws), trial.seconds)


def _copy(folder: Path) -> None:
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_LEAVE_OUT)
        else:
            shutil.copy2(ROOT / name, folder / name)


def _run(folder: Path, arguments: Sequence[str]) -> Trial:
    """Run pytest with kernels as plain Python, because compiling them takes far longer."""
    options = ["-q", "-rfE", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "pytest_timeout", *_SILENCED]
    options += [f"--deselect={find_law(law)}" for law in ONLY_COMPILED]
    paths = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1", "COLUMNS": "400"}  # pytest truncates reasons at this width
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    plain = {"NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # importing them takes longer than most trials
    environment = os.environ | plain | plugins | paths | threads
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BrokenTrialError(f"no verdict in {LONGEST:.0f} seconds") from error
    if done.returncode not in {_GREEN, _RED}:
        raise BrokenTrialError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Trial(_failures(done.stdout), time.monotonic() - started)


def _failures(output: str) -> tuple[str, ...]:
    """Return the failures in pytest's short summary."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return tuple(line.split(" ", 1)[1] for line in lines)

"""Running tests on a copy of the sources, with or without an error in them."""

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

SOURCES = ("learners", "service", "tests", "pyproject.toml")
LONGEST = 600.0  # seconds that one trial may take, on a busy machine

_GREEN, _RED = 0, 1  # exit codes of pytest; all others mean that it could not do its work
ONLY_COMPILED = (
    # Its labels tie but for rounding, which is another where multiply and add are not one instruction.
    "test_bandit_perceptrons::test_micro_trace[bandit_perceptrons_linear_paper]",
    # Compiled, the logarithm of zero is -inf; in plain Python an error.
    "test_fenchel_young::test_extreme_hyperparameters_keep_everything_finite[extremes1]",
)
_BLUNDERS = ("NameError", "UnboundLocalError", "SyntaxError", "ImportError")
_KERNELS_ARE_SILENT = (
    # Where compiled kernels go on with an infinity or a nan, plain Python warns or raises. A law has to notice.
    " encountered in ",
    "OverflowError: ",
    "ZeroDivisionError: ",
    "ValueError: math domain error",
)
_SILENCED = [f"-Wignore:{what} encountered in scalar:RuntimeWarning" for what in ("overflow", "invalid value")]
_LEAVE_OUT = shutil.ignore_patterns("__pycache__", ".*")


class Trial(NamedTuple):
    """How the tests went."""

    failures: tuple[str, ...]  # of each failed test the id and the reason; none where all passed
    seconds: float


class BrokenTrialError(Exception):
    """The tests did not run, so they say nothing."""


def run_control(tests: Sequence[str]) -> Trial:
    """Runs tests on a faithful copy, all of them.

    Raises:
        BrokenTrialError: if pytest could not do its work, or not in time.
    """
    with tempfile.TemporaryDirectory(prefix="wager-") as folder:
        _copy(Path(folder))
        return _run(Path(folder), tests)


def run_mutation(mutation: Mutation) -> Trial:
    """Runs the tests on a copy with the error, until one fails.

    Raises:
        ValueError: if the error does not fit the sources.
        BrokenTrialError: if pytest could not do its work, or not in time; or if the error is one that any run
            would notice, a name that is not there.

    Returns:
        The trial, with the failures of laws alone: arithmetic that fails in plain Python only is not one.
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
    """The trial without the failures that compiled kernels would not make."""
    laws = [failure for failure in trial.failures if not any(noise in failure for noise in _KERNELS_ARE_SILENT)]
    return Trial(tuple(laws), trial.seconds)


def _copy(folder: Path) -> None:
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_LEAVE_OUT)
        else:
            shutil.copy2(ROOT / name, folder / name)


def _run(folder: Path, arguments: Sequence[str]) -> Trial:
    """Runs pytest, the kernels being plain Python: compiling them anew takes far longer."""
    options = ["-q", "-rfE", "--no-header", "--tb=no", "-p", "no:cacheprovider", *_SILENCED]
    options += [f"--deselect={find_law(law)}" for law in ONLY_COMPILED]
    paths = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1", "COLUMNS": "400"}  # pytest cuts its reasons at the width
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    plain = {"NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # to import them takes longer than most trials
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
    """The lines of pytest's short summary."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return tuple(line.split(" ", 1)[1] for line in lines)

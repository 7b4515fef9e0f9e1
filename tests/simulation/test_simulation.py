"""Simulated runs break no promise, repeat themselves, and use a server that answers like the real one."""

import os
import subprocess
import sys

import pytest

from tests.mutation.symbols import ROOT
from tests.simulation.faults import Fault, Kind
from tests.simulation.shrinking import smallest

TOTAL = 50_000


def _simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run simulations in a process, which ends without ending the tasks of killed workers."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", [1000, 2000, 3000, 4000])
def test_simulated_runs_break_no_promise(seed: int) -> None:
    """Run several seeds, half of them with a replica. Deliberate errors in the protocol fail this law."""
    done = _simulate("--seed", str(seed), "--steps", "8000", "--total", str(TOTAL), "--no-plan")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all runs: seed" in done.stdout


def test_a_seed_repeats_its_history() -> None:
    """Run a seed twice, with other hashes of strings: the histories are equal, byte for byte."""
    first, second = (_simulate("--seed", "7", "--steps", "3000", hash_seed=each) for each in "12")
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0], first.stderr
    assert "digest" in first.stdout


def test_plans_become_smaller() -> None:
    """Find the two faults that a failure needs."""
    faults = [Fault(step, Kind.CUT, 0.0, 0.0) for step in range(50)]
    found = smallest(faults, lambda some: {7, 31} <= {fault.step for fault in some})
    assert [fault.step for fault in found] == [7, 31]

"""Simulated runs break no promise, repeat themselves, and use a server that answers like the real one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.store.embedded.server import EmbeddedServer
from tests.mutation.mutation import ROOT
from tests.simulation.faults import Fault, Kind
from tests.simulation.shrinking import smallest

TOTAL = 50_000
FEWEST_COMMANDS, FEWEST_ACKNOWLEDGED, FEWEST_SCHEDULES = 1_000, 50, 100


def _run(module: str, *arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run a module in a separate process, because simulations change the modules of their libraries."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def _simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return _run("tests.simulation", *arguments, hash_seed=hash_seed)


@pytest.mark.parametrize("seed", [1000, *(pytest.param(each, marks=pytest.mark.slow) for each in (2000, 3000, 7000))])
def test_simulated_runs_break_no_promise(seed: int) -> None:
    """Run several seeds, half of them with a replica. Deliberate errors in the protocol fail this law."""
    done = _simulate("--seed", str(seed), "--steps", "8000", "--total", str(TOTAL), "--no-plan")
    assert done.returncode == 0, done.stdout + done.stderr
    acknowledged = re.search(r"all runs: .* acknowledged (\d+)", done.stdout)
    assert acknowledged
    assert int(acknowledged[1]) > FEWEST_ACKNOWLEDGED


def test_a_seed_repeats_its_history() -> None:
    """Run a seed twice, with other hashes of strings: the histories are equal, byte for byte."""
    first, second = (_simulate("--seed", "7", "--steps", "3000", hash_seed=each) for each in "12")
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0], first.stderr
    assert "digest" in first.stdout


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        pytest.param("changes", ["predict 1", "feedback", "expiry", "label change"], marks=pytest.mark.slow),
        ("rounds", ["predict 1", "feedback", "duplicate"]),
        ("rounds", ["predict 1", "feedback", "contradiction"]),
        ("commits", ["predict 1", "predict 2", "predict 3", "feedback", "feedback 2"]),
        pytest.param("activation", ["predict 1", "feedback", "activation", "contradiction"], marks=pytest.mark.slow),
        pytest.param("flag", ["evaluation", "evaluation 2", "feedback"], marks=pytest.mark.slow),
    ],
)
def test_every_interleaving_of_some_operations_breaks_no_promise(name: str, operations: list[str]) -> None:
    """Search all orders of some operations, with one fault: the answers are true, also those that are read late."""
    done = _run("tests.simulation.interleavings", name, "--only", *operations)
    found = re.match(r"([\d,]+) schedules", done.stdout)
    assert found, done.stderr
    assert int(found[1].replace(",", "")) > FEWEST_SCHEDULES


def test_the_simulated_server_answers_like_a_real_one(tmp_path: Path) -> None:
    """Send the commands of a simulation to the embedded Valkey: its replies are equal."""
    with EmbeddedServer(tmp_path) as server:
        done = _run("tests.simulation.comparison", server.url)
    found = re.fullmatch(r"0 of (\d+) replies differ\n", done.stdout)
    assert found, done.stdout[:2000] + done.stderr
    assert int(found[1]) > FEWEST_COMMANDS


def test_plans_become_smaller() -> None:
    """Find the two faults that a failure needs."""
    faults = [Fault(step, Kind.CUT, 0.0, 0.0) for step in range(50)]
    found = smallest(faults, lambda some: {7, 31} <= {fault.step for fault in some})
    assert [fault.step for fault in found] == [7, 31]

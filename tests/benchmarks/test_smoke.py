"""A quick check that the benchmarks run and that their ratios are close to the tables of BENCHMARKS.md.

It compares only ratios of two measurements from the same run, because those carry over to other machines. It allows a
factor of three, so it detects a path that became several times slower than its baseline. The sections that start
services are slow; `test_hot.py` plays against a service.
"""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
LOOKS = 3  # at most


@pytest.mark.parametrize(
    "section",
    ["fold", "simulation", *(pytest.param(served, marks=pytest.mark.slow) for served in ("http", "batches"))],
)
def test_no_ratio_is_far_from_the_table(section: str) -> None:
    """Check the sections that take seconds. A deviation must show in every look, because machines are busy."""
    command = [sys.executable, "-m", "benchmarks", section, "--quick", "--compare"]
    for _ in range(LOOKS):
        look = subprocess.run(command, cwd=_ROOT, capture_output=True, check=False, encoding="utf-8")
        assert section in look.stdout, look.stderr  # a table
        if look.returncode == 0:
            return
    pytest.fail(look.stderr)

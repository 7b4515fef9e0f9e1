"""A quick look at the benchmarks: do they still run, and is any ratio far from the last table in BENCHMARKS.md?

Only ratios of two things measured in the same run are compared, for those travel from machine to machine, and a
factor of three is forgiven: what shows is a path that became several times as slow as what stands beside it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
LOOKS = 3  # at most


@pytest.mark.parametrize("section", ["fold", "simulation", "http", "batches"])
def test_no_ratio_is_far_from_the_table(section: str) -> None:
    """In the sections of which a look takes seconds. What one look finds, others must find too: machines are busy."""
    command = [sys.executable, "-m", "benchmarks", section, "--quick", "--compare"]
    for _ in range(LOOKS):
        look = subprocess.run(command, cwd=_ROOT, capture_output=True, check=False, encoding="utf-8")
        assert section in look.stdout, look.stderr  # a table
        if look.returncode == 0:
            return
    pytest.fail(look.stderr)

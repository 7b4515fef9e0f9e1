"""A quick look at the benchmarks: do they still run, and is any ratio far from the last table in BENCHMARKS.md?

Only ratios of two things measured in the same run are compared, for those travel from machine to machine, and a
factor of three is forgiven: what shows is a path that became several times as slow as what stands beside it.
"""

import math

import pytest

from benchmarks.record import FILE, far_off
from benchmarks.sections import SECTIONS

LOOKS = 3  # at most


@pytest.mark.parametrize("section", ["fold", "simulation", "http", "batches"])
def test_no_ratio_is_far_from_the_table(section: str) -> None:
    """In the sections of which a look takes seconds. What one look finds, others must find too: machines are busy."""
    look = SECTIONS[section].quick
    assert look is not None
    for _ in range(LOOKS):
        rows = look()
        assert any(math.isfinite(row.ratio) for row in rows)
        far = far_off(FILE.read_text(), section, rows)
        if not far:
            return
    pytest.fail("\n".join(far))

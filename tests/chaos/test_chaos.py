"""A short storm: what `python -m tests.chaos` does for longer."""

import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import fail_over, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes and connections in /proc")


async def test_nothing_is_lost_or_doubled_in_a_storm(tmp_path: Path) -> None:
    """Every fault in turn, under load: rounds in the log are the acknowledged feedbacks, and nobody was lied to."""
    report, happened = await run(tmp_path, seconds=10.0, seed=1)
    assert report.wrong == []
    assert report.lost == []
    assert report.rounds == report.acknowledged > 0
    assert len(happened) >= 7
    assert {"200", "409", "503"} <= report.requests.keys()


@pytest.mark.slow
async def test_a_fail_over_doubles_nothing(tmp_path: Path) -> None:
    """A primary that dies under load may lose what its replica had not; states stay folds of the log."""
    report, happened = await fail_over(tmp_path, seconds=15.0, seed=1)
    assert [line for line in report.wrong if "fold" in line or "numbered" in line or "rounds are of" in line] == []
    assert happened["dead primary"] >= 1

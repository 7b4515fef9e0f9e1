"""A short storm: what `python -m tests.chaos` does for longer."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.__main__ import Death, fail_over, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes and connections in /proc")


async def test_nothing_is_lost_or_doubled_in_a_storm(tmp_path: Path) -> None:
    """Every fault in turn, under load: rounds in the log are the acknowledged feedbacks, and nobody was lied to."""
    report, happened = await run(tmp_path, seconds=6.0, seed=1)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert len(happened) >= 3  # on a busy machine; else all seven
    assert {"200", "409", "503"} <= report.requests.keys()


@pytest.mark.slow
async def test_a_long_storm(tmp_path: Path) -> None:
    """Every fault several times."""
    report, happened = await run(tmp_path, seconds=40.0, seed=2)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert len(happened) == 7


@pytest.mark.slow
async def test_a_fail_over_loses_only_what_the_replica_had_not(tmp_path: Path) -> None:
    """A primary that dies under load: all that clients were told is explained by losses at that time, or by none."""
    report, happened = await fail_over(tmp_path, seconds=15.0, seed=1)
    assert report.wrong == []
    assert len(report.lost) < report.acknowledged
    assert happened["killed primary"] >= 1


@pytest.mark.slow
async def test_what_a_replica_has_confirmed_outlives_the_primary(tmp_path: Path) -> None:
    """However soon it is killed after it has a replica again: nothing that was acknowledged is lost."""
    report, happened = await fail_over(tmp_path, seconds=5.0, seed=1, death=Death.HASTY, wait_replicas=1)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert happened["hasty primary"] >= 1


@pytest.mark.slow
async def test_a_primary_that_was_cut_off_refuses_without_its_replica(tmp_path: Path) -> None:
    """With `min-replicas-to-write` two servers never take writes at once for long: what came before is there."""
    options: dict[str, Any] = {"min_replicas_to_write": "1", "min_replicas_max_lag": "1"}
    report, happened = await fail_over(tmp_path, seconds=5.0, seed=1, death=Death.CUT_OFF, **options)
    assert report.wrong == []
    assert len(report.lost) < report.acknowledged / 2
    assert happened["cut-off primary"] >= 1

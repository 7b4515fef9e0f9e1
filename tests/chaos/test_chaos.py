"""The laws of the service under faults: short runs of `python -m tests.chaos`."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.faults.clocks import refused_clocks
from tests.chaos.faults.fail_overs import Death
from tests.chaos.playing import Length
from tests.chaos.runs import change_cluster, fail_over, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes and connections in /proc")


async def test_faults_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    """With every fault in turn, the log has exactly the acknowledged feedback, and all replies are consistent."""
    report, injected = await run(tmp_path, Length(6.0, 1, kinds=3))
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert len(injected) >= 3
    assert {"200", "409", "503"} <= report.requests.keys()


@pytest.mark.slow
async def test_a_longer_run_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    """A longer run with every fault loses and duplicates nothing."""
    report, injected = await run(tmp_path, Length(40.0, 2))
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert len(injected) >= 9  # eleven where the machine permits a full and a slow disk


@pytest.mark.slow
async def test_a_fail_over_loses_only_what_the_replica_lacks(tmp_path: Path) -> None:
    """If a primary is killed under load, losses at that time explain all replies, and something survives."""
    report, injected = await fail_over(tmp_path, Length(15.0, 1))
    assert report.wrong == []
    assert len(report.lost) < report.acknowledged
    assert injected["killed primary"] >= 1


@pytest.mark.slow
async def test_rounds_confirmed_by_a_replica_survive_the_primary(tmp_path: Path) -> None:
    """If a replica confirms each feedback, nothing acknowledged is lost, however early the primary is killed."""
    report, injected = await fail_over(tmp_path, Length(5.0, 1), [Death.HASTY], wait_replicas=1)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert injected["hasty primary"] >= 1


@pytest.mark.slow
async def test_a_cut_off_primary_refuses_writes(tmp_path: Path) -> None:
    """With `min-replicas-to-write` a cut-off primary soon refuses writes, so less than half of the feedback is lost."""
    options: dict[str, Any] = {"min_replicas_to_write": "1", "min_replicas_max_lag": "1"}
    report, injected = await fail_over(tmp_path, Length(5.0, 1), [Death.CUT_OFF], **options)
    assert report.wrong == []
    assert len(report.lost) < report.acknowledged / 2
    assert injected["cut-off primary"] >= 1


@pytest.mark.slow
async def test_memory_is_freed_when_predictions_expire(tmp_path: Path) -> None:
    """Below the same memory limit, the service recovers once predictions expire, and loses nothing else."""
    report, injected = await run(tmp_path, Length(10.0, 1), ["flood"], clocks=True)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert injected["flood"] >= 1 or refused_clocks()


@pytest.mark.slow
async def test_changes_of_a_cluster_lose_nothing(tmp_path: Path) -> None:
    """If slots move under traffic and replicas take over by hand, nothing is lost or repeated."""
    report, injected = await change_cluster(tmp_path, Length(15.0, 1), deaths=False)
    assert (report.wrong, report.lost, report.renewed) == ([], [], [])
    assert report.rounds == report.acknowledged > 0
    assert {"slot moved by key", "fail-over by hand"} & injected.keys()


@pytest.mark.slow
async def test_the_death_of_a_clusters_primary_loses_only_what_the_replica_lacks(tmp_path: Path) -> None:
    """If primaries of a cluster are killed under load, losses at that time explain all replies."""
    report, injected = await change_cluster(tmp_path, Length(15.0, 1), deaths=True)
    assert report.wrong == []
    assert len(report.lost) < report.acknowledged
    assert injected["killed primary"] >= 1

"""The order of the tests among several processes."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

LONGEST = (
    "simulation/test_simulation.py",
    "learners/contract/test_growth.py",
    "service/operations/test_restarts.py",
    "recordings/test_recordings.py",
    "toolkit/load/test_load.py",
    "service/observability/test_metrics.py",
    "client/test_typescript.py",
    "service/operations/test_two_versions.py",
    "chaos/test_chaos.py",
    "client/test_tutorials.py",
    "toolkit/test_demo.py",
    "benchmarks/test_papers.py",
    "benchmarks/test_smoke.py",
    "service/operations/test_losses.py",
    "service/operations/test_full_disk.py",
    "service/observability/test_request_log.py",
    "service/api/test_standstill.py",
    "service/rounds/test_long_work.py",
    "service/api/test_slow_clients.py",
    "service/rounds/test_exactly_once.py",
    "service/store/test_fleets.py",
    "service/operations/test_kernels.py",
)
"""Files under tests/ whose tests take longest, most of them because they start services or compile."""


def longest_first(files: Sequence[str], items: Sequence[T], processes: int) -> list[T]:
    """Put the longest files first in the share of each process, so that only short tests are left at the end.

    pytest-xdist gives each process an equal, contiguous share, and idle processes take tests from the end of others'.

    Args:
        files: the file of each item.
        items: the tests.
        processes: how many processes share them.
    """
    ranks = {name: place for place, name in enumerate(LONGEST)}
    paired = [(ranks.get(file.rpartition("tests/")[2]), item) for file, item in zip(files, items, strict=True)]
    short = [item for rank, item in paired if rank is None]
    ordered: list[T] = []
    for process in range(processes):
        end = len(items) * (process + 1) // processes
        ordered += [item for rank, item in paired if rank is not None and rank % processes == process]
        taken = max(0, end - len(ordered))
        ordered, short = ordered + short[:taken], short[taken:]
    return ordered + short

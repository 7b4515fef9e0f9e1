"""The longest tests begin in every process, and none is lost or split from its file."""

from itertools import groupby
from pathlib import Path

import pytest

from tests.order import LONGEST, longest_first

ROOT = Path(__file__).parents[1]

FILES = [file for name in (*LONGEST, "a.py", "b.py", "c.py", "d.py") for file in [f"/x/tests/{name}"] * 7]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_each_share_begins_with_long_files(processes: int) -> None:
    files = sorted(FILES, key=lambda file: (len(file), file)) + ["/x/tests/z.py"] * 400
    found = [files[i] for i in longest_first(files, range(len(files)), processes)]
    assert sorted(found) == sorted(files)
    long = {f"/x/tests/{name}" for name in LONGEST}
    begun = [file for file, _ in groupby(found) if file in long]
    assert len(begun) == len(LONGEST)
    for process in range(processes):
        assert found[len(found) * process // processes] in long


def test_the_long_files_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []

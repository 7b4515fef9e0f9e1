"""Lookup of tests by name, so that tests may move between files."""

import re
from functools import cache
from pathlib import Path

from tests.mutation.symbols import ROOT

_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def _files(root: Path) -> tuple[tuple[Path, frozenset[str]], ...]:
    """Return each test file, relative to the root, with the names of its tests."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return tuple((path.relative_to(root), frozenset(_TEST.findall(path.read_text()))) for path in paths)


def find_law(law: str, root: Path = ROOT) -> str:
    """Find the only test with a name, and return it as a pytest argument.

    Args:
        law: the name (`test_micro_trace`); with a case if one case is enough (`test_micro_trace[soba]`); preceded by
            its file if several files have a test of that name (`test_soba::test_micro_trace`).
        root: the root of the repository.

    Raises:
        ValueError: if no test or several tests match.
    """
    file, _, case = law.rpartition("::")
    test = case.partition("[")[0]
    found = [path for path, tests in _files(root) if test in tests and file in {"", path.stem}]
    if len(found) != 1:
        raise ValueError(f"{len(found)} tests are called {law!r}, not one: {', '.join(map(str, found))}")
    return f"{found[0].as_posix()}::{case}"

"""Finding tests by their names, so that their files may change."""

import re
from functools import cache
from pathlib import Path

from tests.mutation.symbols import ROOT

_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def _files(root: Path) -> tuple[tuple[Path, frozenset[str]], ...]:
    """Of each file of tests, from the root, the tests in it."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return tuple((path.relative_to(root), frozenset(_TEST.findall(path.read_text()))) for path in paths)


def find_law(law: str, root: Path = ROOT) -> str:
    """Find the one test of a name, as an argument of pytest.

    Args:
        law: the name (`test_micro_trace`), with a case where one is enough (`test_micro_trace[soba]`), and
            preceded by its file where several have one of that name (`test_soba::test_micro_trace`).
        root: of the repository.

    Raises:
        ValueError: if none or several match.
    """
    file, _, case = law.rpartition("::")
    test = case.partition("[")[0]
    found = [path for path, tests in _files(root) if test in tests and file in {"", path.stem}]
    if len(found) != 1:
        raise ValueError(f"{len(found)} tests are called {law!r}, not one: {', '.join(map(str, found))}")
    return f"{found[0].as_posix()}::{case}"

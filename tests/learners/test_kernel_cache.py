"""The laws of the cache of compiled kernels: without a place or room for it, each process compiles for itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import learners

PACKAGE = Path(learners.__file__).parent
NOBODY = 65534

NARROW = """
import numpy as np
from learners import kernel_cache
from learners.kernels import narrow
numbers = np.array([1.0, 2.0, 3.0])
print(narrow(np.array([[False, True, True]]), 0, numbers), numbers[0], narrow.stats.cache_hits.total())
print(kernel_cache.ROOT)
"""

COMPILE = """
from learners import compilation, kernel_cache
import numpy as np
from learners.kernels import narrow
numbers = np.array([1.0, 2.0, 3.0])
call = lambda: narrow(np.array([[False, True, True]]), 0, numbers)
compilation.parts = lambda: {"first": [call], "second": [call]}
compilation.compile_kernels(beside_service=True)
print([kernel_cache.is_compiled(part) for part in ("first", "second", kernel_cache.ALL)])
"""

NO_ROOM = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"  # bytes: enough for a semaphore


def printed(program: str, **environment: str | Path) -> list[str]:
    """Run a program, and return the words that it prints."""
    variables = {name: str(value) for name, value in environment.items()}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"  # Python keeps truncated bytecode if there is no room
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=variables, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_kernel_runs_without_room_for_its_code(tmp_path: Path) -> None:
    paths = {"PYTHONPATH": PACKAGE.parent, "NUMBA_CACHE_DIR": tmp_path}
    for program in (NO_ROOM + NARROW, NARROW):  # the second shows that the first stored nothing
        assert printed(program, **paths) == ["2", "2.0", "0", str(tmp_path)]
    assert printed(NARROW, **paths) == ["2", "2.0", "1", str(tmp_path)]


def test_what_cannot_be_stored_is_not_noted_as_compiled(tmp_path: Path) -> None:
    """Otherwise no later start would compile it in advance."""
    paths = {"PYTHONPATH": PACKAGE.parent, "NUMBA_CACHE_DIR": tmp_path}
    assert printed(NO_ROOM + COMPILE, **paths) == ["[False,", "False,", "False]"]
    assert printed(COMPILE, **paths) == ["[True,", "True,", "True]"]


@pytest.mark.parametrize("owner", ["this user", "another user"])
def test_a_user_without_a_home_has_a_cache(tmp_path: Path, owner: str) -> None:
    """Neither the package nor the home can be written. A temporary folder of another user is not trusted."""
    shutil.copytree(PACKAGE, tmp_path / "learners", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "learners" / "__pycache__").write_text("a file, so that not even root can write into it")
    place = tmp_path / f"wager-{os.getuid()}"
    if owner == "another user":
        if os.getuid() != 0:
            pytest.skip("only root can give a folder to another user")
        place.mkdir()
        os.chown(place, NOBODY, NOBODY)
    paths: dict[str, str | Path] = {"PYTHONPATH": tmp_path, "HOME": "/dev/null", "TMPDIR": tmp_path}
    found = [printed(NARROW, **paths)[2:] for _ in range(2)]
    expected = [["0", str(place)], ["1", str(place)]] if owner == "this user" else [["0", "None"]] * 2
    assert found == expected

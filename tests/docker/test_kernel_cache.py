"""The laws of the image's kernels: entrypoint.sh gives numba a writable cache without copying the image's kernels."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[2] / "docker" / "entrypoint.sh"
PROGRAM = """
import os, sys
import numba
numba.config.CACHE_DIR = os.path.join(os.environ["NUMBA_CACHE_DIR"], "kernels")
sys.path.insert(0, sys.argv[1])
from kernel import twice
assert twice(2) == 4
print(sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))
"""
KERNEL = """
import numba

@numba.njit(cache=True)
def twice(x):
    return 2 * x
"""

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the image is for Linux")


def run(folder: Path, **environment: str) -> tuple[int, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    own = {"WAGER_KERNELS": str(folder / "image"), "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["sh", str(ENTRYPOINT), sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, env=clean | own | environment, capture_output=True, text=True, check=True)
    hits, misses = done.stdout.split()
    return int(hits), int(misses)


def test_the_kernels_of_the_image_are_used(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "tmp").mkdir()
    assert run(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "image")) == (0, 1)
    before = {path: path.read_bytes() for path in (tmp_path / "image").rglob("*") if path.is_file()}
    assert run(tmp_path) == (1, 0)
    linked = [path for path in (tmp_path / "tmp" / "wager-kernels").rglob("*") if not path.is_dir()]
    assert [path.is_symlink() for path in linked] == [True] * len(before)
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert [run(tmp_path, **other) for _ in range(2)] == [(0, 1), (1, 0)]
    assert {path: path.read_bytes() for path in (tmp_path / "image").rglob("*") if path.is_file()} == before


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "file")}
    done = subprocess.run(["sh", str(ENTRYPOINT), "true"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/file must be writable" in done.stderr

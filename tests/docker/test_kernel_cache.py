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
    """Run a program that uses a kernel through entrypoint.sh; return the cache's hits and misses."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    own = {"WAGER_KERNELS": str(folder / "image"), "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["sh", str(ENTRYPOINT), sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, env=clean | own | environment, capture_output=True, text=True, check=True)
    hits, misses = done.stdout.split()
    return int(hits), int(misses)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a kernel as the image build does, and return the image's folder with an empty `tmp`."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "tmp").mkdir()
    assert run(folder, NUMBA_CACHE_DIR=str(folder / "image")) == (0, 1)
    return folder


def test_the_kernels_of_the_image_are_used(image: Path) -> None:
    """Nothing is compiled or copied, and the image is not written to."""
    before = contents(image / "image")
    assert run(image) == (1, 0)
    linked = [path for path in (image / "tmp" / "wager-kernels").rglob("*") if not path.is_dir()]
    assert len(linked) == len(before)
    assert all(path.is_symlink() for path in linked)
    assert contents(image / "image") == before


def test_another_cpu_compiles_its_own_kernels(image: Path) -> None:
    """If the image's kernels do not fit the CPU, new ones are stored in /tmp, and used again after a restart."""
    before = contents(image / "image")
    assert run(image, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == (0, 1)
    assert contents(image / "image") == before
    assert run(image, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == (1, 0)


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    """If the links cannot be created, the container names the folder that must be writable."""
    (tmp_path / "file").touch()
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "file")}
    done = subprocess.run(["sh", str(ENTRYPOINT), "true"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/file must be writable" in done.stderr

"""The files of the image: no program changes its user, no file is open to everybody, and its packages are listed."""

import json
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docker.engine import Check
from tests.supply.licences import ROOT, canonical, pinned

IMAGE = "wager:0.1.0"


def risky_files(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        yield from (f"/{path.relative_to(root)} is {risk}" for risk in risks(path.lstat().st_mode))


def risks(mode: int) -> list[str]:
    """Return what is risky about a file with this type and mode.

    A folder with the sticky bit, such as /tmp, may be writable by everybody: nobody can replace the files of others in
    it. A setgid folder only passes its group on to new files. The mode of a symbolic link has no effect. Neither have
    the device nodes of an image: a container gets its own /dev, and its engine decides which devices it may open.
    """
    if stat.S_ISLNK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return []
    is_folder, found = stat.S_ISDIR(mode), list[str]()
    if not is_folder and mode & (stat.S_ISUID | stat.S_ISGID):
        found.append("setuid or setgid")
    if mode & stat.S_IWOTH and not (is_folder and mode & stat.S_ISVTX):
        found.append("writable by everybody")
    return found


@contextmanager
def _mounted() -> Iterator[Path]:
    done = subprocess.run(["podman", "image", "mount", IMAGE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"podman image mount: {done.stderr[-2000:]}")
    try:
        yield Path(done.stdout.strip())
    finally:
        subprocess.run(["podman", "image", "unmount", IMAGE], capture_output=True, check=False)


def _no_risky_files() -> str:
    with _mounted() as root:
        assert (root / "app" / "wager.cdx.json").exists(), f"{root} is not the root of the image"
        found = list(risky_files(root))
        assert found == [], found
        return f"{sum(1 for _ in root.rglob('*'))} files"


def _listed_packages() -> str:
    with _mounted() as root:
        bom = json.loads((root / "app" / "wager.cdx.json").read_text())
    listed = {(canonical(one["name"]), one["version"]) for one in bom["components"]}
    assert "numpy" in {name for name, _ in listed}, listed
    unlocked = listed - pinned((ROOT / "requirements" / "serve.txt").read_text())
    assert unlocked == set(), unlocked
    return f"{len(listed)} packages"


CHECKS: dict[str, Check] = {
    "no file is setuid, setgid or writable by everybody": _no_risky_files,
    "the image lists its packages, all from the lock": _listed_packages,
}

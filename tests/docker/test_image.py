"""The laws of the scan of the image's files, and of what the Dockerfile does about them."""

import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.docker.image import IMAGE, risks, risky_files

ROOT = Path(__file__).parents[2]
SETID, OPEN = "setuid or setgid", "writable by everybody"


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (stat.S_IFREG | 0o4755, [SETID]),
        (stat.S_IFREG | 0o2000, [SETID]),
        (stat.S_IFREG | 0o1666, [OPEN]),
        (stat.S_IFREG | 0o6777, [SETID, OPEN]),
        (stat.S_IFREG | 0o775, []),
        (stat.S_IFIFO | 0o622, [OPEN]),
        (stat.S_IFDIR | 0o777, [OPEN]),
        (stat.S_IFDIR | 0o1777, []),
        (stat.S_IFDIR | 0o2775, []),
        (stat.S_IFLNK | 0o777, []),
        (stat.S_IFCHR | 0o6777, []),
    ],
)
def test_files_are_judged_by_their_mode(mode: int, found: list[str]) -> None:
    """Files may be neither setuid nor open to everybody; folders may be open only if sticky; devices do not matter."""
    assert risks(mode) == found


def test_the_image_strips_setuid_programs(tmp_path: Path) -> None:
    """The command of the Dockerfile removes the bits that the scan finds, and changes no other mode."""
    modes = {"su": 0o4755, "wall": 0o2755, ".deep/both": 0o6711, "plain": 0o755}
    for name, mode in modes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("su")
    assert list(risky_files(tmp_path)) == [f"/{name} is {SETID}" for name in (".deep/both", "su", "wall")]
    (command,) = re.findall(r"^RUN (find / .*)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    subprocess.run(["sh", "-c", command.replace("find /", f"find {tmp_path}", 1)], check=True)
    assert list(risky_files(tmp_path)) == []
    left = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in modes}
    assert left == {name: mode & 0o777 for name, mode in modes.items()}


def test_the_scanned_image_is_the_built_one() -> None:
    assert f"build --tag {IMAGE} --file docker/Dockerfile ." in (ROOT / "docker" / "test.sh").read_text()

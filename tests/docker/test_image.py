"""The laws of the scan of the image's files."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.docker import __main__ as program
from tests.docker.image import IMAGE, risks, risky_files

ROOT = Path(__file__).parents[2]


def made(path: Path, mode: int, *, folder: bool = False) -> Path:
    """Create a file or a folder with exactly this mode."""
    if folder:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    path.chmod(mode)
    return path


@pytest.mark.parametrize("place", ["file", "deep/er/file", ".hidden/file"])
@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (0o4755, ["is setuid or setgid"]),
        (0o2755, ["is setuid or setgid"]),
        (0o4000, ["is setuid or setgid"]),
        (0o666, ["is writable by everybody"]),
        (0o1666, ["is writable by everybody"]),
        (0o6777, ["is setuid or setgid", "is writable by everybody"]),
        (0o775, []),
        (0o644, []),
        (0o000, []),
    ],
    ids=lambda value: f"{value:o}" if isinstance(value, int) else None,
)
def test_files_are_judged_by_their_mode(tmp_path: Path, place: str, mode: int, found: list[str]) -> None:
    """A file that is setuid, setgid or writable by everybody is named wherever it is; no other file is."""
    made(tmp_path / place, mode)
    assert list(risky_files(tmp_path)) == [f"/{place} {reason}" for reason in found]


@pytest.mark.parametrize(
    ("mode", "found"),
    [(0o777, ["/folder is writable by everybody"]), (0o1777, []), (0o2775, []), (0o755, [])],
    ids=lambda value: f"{value:o}" if isinstance(value, int) else None,
)
def test_folders_may_be_open_to_everybody_only_if_sticky(tmp_path: Path, mode: int, found: list[str]) -> None:
    """Everybody may write to a folder like /tmp; a folder's setgid bit gives nobody rights."""
    made(tmp_path / "folder", mode, folder=True)
    assert list(risky_files(tmp_path)) == found


def test_links_are_not_followed(tmp_path: Path) -> None:
    """The mode of a link has no effect, and what it leads to is judged in its place, or is not in the image."""
    outside = made(tmp_path / "outside" / "file", 0o4777)
    image = made(tmp_path / "image", 0o755, folder=True)
    (image / "file").symlink_to(outside)
    (image / "folder").symlink_to(outside.parent)
    (image / "nowhere").symlink_to("missing")
    assert list(risky_files(image)) == []


def test_sockets_and_pipes_count_as_files(tmp_path: Path) -> None:
    """A pipe that everybody may write to is named."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o622)
    assert list(risky_files(tmp_path)) == ["/pipe is writable by everybody"]


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK], ids=["character", "block"])
@pytest.mark.parametrize("mode", [0o666, 0o6777], ids=lambda mode: f"{mode:o}")
def test_device_nodes_are_no_files(kind: int, mode: int) -> None:
    """The device nodes of an image, such as /dev/null, give nobody rights; a file of the same mode does."""
    assert risks(kind | mode) == []
    assert risks(stat.S_IFREG | mode) != []


def test_a_failed_check_says_what_failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The line of a failed check has the code that failed, even if its assertion has no message, and the message."""

    def fail() -> str:
        assert [] == ["/bin/su"]
        return ""

    def fail_with_message() -> str:
        raise AssertionError("/bin/su")

    monkeypatch.setattr(program, "SUITES", {"image": {"one": fail, "other": fail_with_message}})
    monkeypatch.setattr(program, "compose", lambda *_: "")
    assert program.main([]) == 2
    one, other, counts = capsys.readouterr().out.splitlines()
    assert one.startswith("FAILED image: one: test_image.py:")
    assert 'assert [] == ["/bin/su"]' in one
    assert "AssertionError('/bin/su')" in other
    assert counts == "0 passed, 2 failed"


def test_the_image_strips_setuid_programs(tmp_path: Path) -> None:
    """The command of the Dockerfile leaves no setuid or setgid file, and no other mode changes."""
    modes = {"su": 0o4755, "wall": 0o2755, "deep/both": 0o6711, "plain": 0o755}
    for name, mode in modes.items():
        made(tmp_path / name, mode)
    (command,) = re.findall(r"^RUN (find / .*)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    subprocess.run(["sh", "-c", command.replace("find /", f"find {tmp_path}", 1)], check=True)
    assert list(risky_files(tmp_path)) == []
    assert {name: (tmp_path / name).stat().st_mode & 0o7777 for name in modes} == {
        name: mode & 0o777 for name, mode in modes.items()
    }


def test_the_scanned_image_is_the_built_one() -> None:
    """docker/test.sh builds the image under the name that the checks mount."""
    assert f"build --tag {IMAGE} --file docker/Dockerfile ." in (ROOT / "docker" / "test.sh").read_text()

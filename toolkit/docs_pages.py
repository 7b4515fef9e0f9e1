"""`python toolkit/docs_pages.py FOLDER` copies the pages that zensical.toml names to a folder, and adds llms.txt.

A page keeps its path, so links among pages stay as they are. A link to any other file becomes an address in the
repository, as pyproject.toml names it.
"""

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Nav = Sequence[Any]  # a path, or {title: a path or a Nav}

_FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(?=[^)]*\))")
_PARAGRAPH = re.compile(r"^# .+\n\n((?:.+\n)*?.+)(?:\n\n|\n?\Z)", re.MULTILINE)


def main(folder: Path) -> None:
    """Replace the folder by the pages, their pictures, and llms.txt."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in documents(nav).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for picture in pictures(nav):
        (folder / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / picture, folder / picture)


def documents(nav: Nav) -> dict[str, str]:
    """Return the text of each page by path, and that of llms.txt.

    Raises:
        ValueError: if the navigation lacks a page of docs/, a link is broken, or a page begins without a sentence.
    """
    paths = list(_paths(nav))
    if missing := sorted({str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md")} - set(paths)):
        raise ValueError(f"the nav of zensical.toml lacks {', '.join(missing)}")
    kept = {*paths, *pictures(nav)}
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    pages = {path: _outside_code(_link_to(path, kept, source), (ROOT / path).read_text()) for path in paths}
    return pages | {"llms.txt": _llms(nav)}


def pictures(nav: Nav) -> set[str]:
    """Return the paths of the pictures that pages show."""
    texts = {path: (ROOT / path).read_text() for path in _paths(nav)}
    return {
        _resolved(path, found)
        for path, text in texts.items()
        for found in _LINK.findall(text)
        if found.endswith((".png", ".svg"))
    }


def first_sentence(text: str) -> str:
    """Return the first sentence of a page as plain text.

    Raises:
        ValueError: if the page does not begin with a title and a paragraph.
    """
    found = _PARAGRAPH.search(text)
    if not found or re.match(r"#|```|[|<>!-]", found[1]):
        raise ValueError(f"no sentence after the title: {text[:60]!r}")
    prose = re.sub(r"^\*\*[^*]+\*\* ", "", " ".join(found[1].split()))  # without a lead, such as **Decision.**
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", prose)
    return re.split(r"(?<=[.?]) (?=\S)", plain)[0]


def _llms(nav: Nav) -> str:
    """List all pages, by section, in the format of llmstxt.org."""
    lines = ["# Wager", "", f"> {first_sentence((ROOT / 'README.md').read_text())}"]
    for section in nav:
        ((title, inner),) = section.items()
        lines += ["", f"## {title}", ""]
        lines += map(_entry, _paths(inner if isinstance(inner, list) else [inner]))
    return "\n".join(lines) + "\n"


def _entry(path: str) -> str:
    text = (ROOT / path).read_text()
    return f"- [{text.partition(chr(10))[0].lstrip('# ')}]({path}): {first_sentence(text)}"


def _paths(nav: Nav) -> Iterator[str]:
    for each in nav:
        for inner in [each] if isinstance(each, str) else each.values():
            yield from [inner] if isinstance(inner, str) else _paths(inner)


def _link_to(page: str, kept: set[str], source: str) -> Callable[[re.Match[str]], str]:
    def link(match: re.Match[str]) -> str:
        target = _resolved(page, match[1])
        if f"{target}/README.md" in kept:
            return f"{match[1].rstrip('/')}/README.md"
        if not (ROOT / target).exists():
            raise ValueError(f"{page}: {match[1]} does not exist")
        return match[1] if target in kept else f"{source}/blob/main/{target}"

    return link


def _outside_code(link: Callable[[re.Match[str]], str], text: str) -> str:
    parts = _FENCE.split(text)
    return "".join(part if part.lstrip().startswith("```") else _LINK.sub(link, part) for part in parts)


def _resolved(page: str, target: str) -> str:
    return os.path.normpath(Path(page).parent / target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

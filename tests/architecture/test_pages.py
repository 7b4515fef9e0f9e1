"""Laws of the Markdown pages: they stay short, and their links lead somewhere."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.__main__ import argument_parser

ROOT = Path(__file__).parents[2]

MOST_LINES = {
    "README.md": 80,
    "ARCHITECTURE.md": 100,
    "RESULTS.md": 150,
    "SECURITY.md": 120,
    "docs/explanation/decisions/*.md": 35,
    "docs/tutorials/*.md": 160,
}

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)|\]\(#([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Return the Markdown pages that the project owns."""
    patterns = ("*.md", "docs/**/*.md", "benchmarks/**/*.md")
    return sorted(page for pattern in patterns for page in ROOT.glob(pattern))


def broken_links(page: Path) -> Iterator[str]:
    """Yield each relative link of a page whose file or heading does not exist."""
    for match in _LINK.finditer(_CODE.sub("", page.read_text())):
        target, heading, own_heading = match.groups()
        if target and "://" in target:
            continue
        file = page.parent / target if target else page
        anchor = heading or own_heading
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield match.group()


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub derives from the headings of a page, and those it names itself."""
    text = page.read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    derived = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return derived | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """Each link names a file, and a heading if any, that exists."""
    assert list(broken_links(page)) == []


def test_the_comparison_names_its_sources() -> None:
    """Each reference of docs/compare.md is defined, and each definition is used."""
    text = (ROOT / "docs" / "compare.md").read_text()
    defined = re.findall(r"^\[([\w-]+)\]: https://", text, re.MULTILINE)
    assert set(re.findall(r"\]\[([\w-]+)\]", text)) == set(defined)
    assert len(defined) == len(set(defined)) > 20


@pytest.mark.parametrize("pattern", MOST_LINES)
def test_pages_stay_short(pattern: str) -> None:
    """No page exceeds the line limit of its pattern; a longer one is split or moved to docs/."""
    lengths = {str(page.relative_to(ROOT)): len(page.read_text().splitlines()) for page in ROOT.glob(pattern)}
    assert lengths, pattern
    assert {page: n for page, n in lengths.items() if n > MOST_LINES[pattern]} == {}


@pytest.mark.parametrize("page", ["docs/explanation/promises.md", "SECURITY.md"])
def test_every_promise_names_its_proof(page: str) -> None:
    """Each row of a table of promises has a link or a command in its last column."""
    tables = re.findall(r"^\| promise \|.*\n\|[-|]+\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.MULTILINE)
    rows = [row.strip("| ").split(" | ") for table in tables for row in table.splitlines()]
    assert len(rows) > 5
    assert [row[0] for row in rows if not re.search(r"\]\(|`(make|python) ", row[-1])] == []


_TEST = re.compile(r"\[(test_\w+)\]\(([^)]+\.py)\)")
_CHAOS = re.compile(r"`make chaos ARGS='([^']+)'`")


def test_every_loss_names_a_test_or_a_run_of_chaos_that_exists() -> None:
    """Each row of docs/reference/durability.md links to a test by its name, which pytest collects."""
    page = ROOT / "docs/reference/durability.md"
    (table,) = re.findall(r"^\| event \|.*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE)
    proofs = {row.split(" | ")[0]: (_TEST.findall(row), _CHAOS.findall(row)) for row in table.splitlines()}
    assert len(proofs) >= 25
    assert [event for event, found in proofs.items() if not any(found)] == []
    tests = [(name, page.parent / file) for named, _ in proofs.values() for name, file in named]
    assert [name for name, file in tests if name not in functions(file)] == []
    for arguments in (each for _, runs in proofs.values() for each in runs):
        argument_parser().parse_args(shlex.split(arguments))  # exits if it does not know one


def functions(file: Path) -> set[str]:
    """Return the names of the functions that a module defines."""
    found = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, found)}


def test_the_glossary_explains_each_word_in_two_sentences_and_a_link() -> None:
    """Its words are in the order of the alphabet; each has at most three sentences, of which the last is the link."""
    _, *entries = (ROOT / "docs/reference/glossary.md").read_text().split("\n## ")
    words = [entry.partition("\n")[0] for entry in entries]
    assert len(words) >= 60
    assert words == sorted(words, key=str.lower)
    texts = {word: " ".join(entry.split()[len(word.split()) :]) for word, entry in zip(words, entries, strict=True)}
    assert [word for word, text in texts.items() if not re.search(r"\. See \[[^\]]+\]\([^)]+\)\.$", text)] == []
    assert {word: text for word, text in texts.items() if len(re.findall(r"[.:] (?=[A-Z])", text)) > 2} == {}


def test_every_page_is_reachable_from_the_readme() -> None:
    """Links lead from README.md to each page of docs/."""
    found, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in found:
            found.add(page)
            ahead += [each for each in linked(page) if each.suffix == ".md"]
    assert {str(page.relative_to(ROOT)) for page in set(ROOT.glob("docs/**/*.md")) - found} == set()


def linked(page: Path) -> Iterator[Path]:
    """Yield the files to which a page links; of a folder, its README.md."""
    for target, *_ in _LINK.findall(_CODE.sub("", page.read_text())):
        path = (page.parent / target).resolve()
        if target and "://" not in target and path.exists():
            yield path / "README.md" if path.is_dir() and (path / "README.md").exists() else path


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_look_the_same_on_github_and_in_the_site(page: Path) -> None:
    """A blank line comes before a list, and four spaces before what is within an item: Python-Markdown needs both."""
    lines = _CODE.sub("", page.read_text()).splitlines()
    marker = re.compile(r"(?:[-*]|\d+\.) ")
    glued = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if marker.match(line) and before and not (marker.match(before) or before.startswith(" "))
    ]
    assert glued + [line for line in lines if re.match(r" {1,3}(?:(?:[-*]|\d+\.) |\||```)", line)] == []


def test_the_contributing_guide_names_seven_commands_of_the_makefile() -> None:
    """The table of commands has seven rows, each a target of the Makefile."""
    _, section = (ROOT / "CONTRIBUTING.md").read_text().split("## Commands\n")
    named = re.findall(r"^\| `make (\w[\w-]*)", section.split("\n## ")[0], re.MULTILINE)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(named) == 7
    assert set(named) <= set(targets)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_pages_exist(page: Path) -> None:
    """Each `make` target and each module after `python -m` that a page names is one of this repository."""
    text = page.read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    modules = [
        Path(*name.split(".")) for name in re.findall(r"python -m ((?:benchmarks|tests|service|learners)[\w.]*)", text)
    ]
    assert set(re.findall(r"(?:`|^)make ([a-z][\w-]*)", text, re.MULTILINE)) <= targets
    assert [str(m) for m in modules if not ((ROOT / m).is_dir() or (ROOT / m).with_suffix(".py").exists())] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """The checker itself finds a missing file and a missing heading."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[a](page.md#a-title) [b](#a-title) [c](missing.md) [d](#missing) [e](https://example.org/x)"
    )
    assert list(broken_links(page)) == ["](missing.md)", "](#missing)"]

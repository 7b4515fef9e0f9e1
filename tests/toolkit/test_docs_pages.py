"""The laws of the pages that `make docs` makes into a site."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolkit import docs_pages

ROOT = Path(__file__).parents[2]
NAV: list[dict[str, Any]] = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]


def test_llms_txt_lists_each_page_of_the_site_with_a_sentence() -> None:
    pages = docs_pages.documents(NAV)
    title, summary, *lines = filter(None, pages.pop("llms.txt").splitlines())
    assert title == "# Wager"
    assert summary.startswith("> ")
    assert [line[3:] for line in lines if line.startswith("## ")] == [name for each in NAV for name in each]
    entries = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.+[.?:]$", "\n".join(lines), re.MULTILINE)
    assert sorted(entries) == sorted(pages)
    assert len(entries) == sum(not line.startswith("#") for line in lines)


def test_a_link_to_a_source_becomes_an_address_in_the_repository() -> None:
    pages = docs_pages.documents(NAV)
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    assert f"]({source}/blob/main/service/store/records/layout.py)" in pages["docs/reference/records.md"]
    relative = {
        (page, target)
        for page, text in pages.items()
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    }
    kept = {*pages, *docs_pages.pictures(NAV)}
    assert relative
    assert {each for each in relative if docs_pages._resolved(*each) not in kept} == set()


def test_a_page_that_the_navigation_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"the nav of zensical.toml lacks .*docs/guides/rules.md"):
        docs_pages.documents([{"Wager": "README.md"}])


def test_a_broken_link_and_a_page_without_a_sentence_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(docs_pages, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nSource = "https://example.invalid"\n')
    page = tmp_path / "README.md"
    for text, problem in [
        ("# A title\n\nA [link](missing.py).\n", "README.md: missing.py does not exist"),
        ("# A title\n\n## A heading\n", "no sentence after the title: '# A title"),
    ]:
        page.write_text(text)
        with pytest.raises(ValueError, match=re.escape(problem)):
            docs_pages.documents([{"Wager": "README.md"}])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# T\n\nOne `a.b` sentence\nover [two](x.md) lines. Another.\n", "One `a.b` sentence over two lines."),
        ("# T\n\n**Decision.** The store decides. More.\n", "The store decides."),
    ],
)
def test_a_first_sentence_is_plain_text(text: str, sentence: str) -> None:
    assert docs_pages.first_sentence(text) == sentence

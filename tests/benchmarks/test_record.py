"""The pages of results store the tables: they can be read again, and the text around them stays."""

import pytest

from benchmarks import answers
from benchmarks.record import far_off, page, ratios, written
from benchmarks.report import at_least, at_most, of_goal, seen
from benchmarks.sections import SECTIONS

TEXT = "Before.\n\n<!-- one -->\nold\n<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n"
ROWS = [at_least("a rate", 90.0, 100.0, "/s", 0.95), at_most("a size", 1.0, 2.0, "bytes", 1.0), seen("a fact", "7")]


def test_a_table_replaces_the_previous_one() -> None:
    once = written(TEXT, "one", ROWS)
    assert written(once, "one", ROWS) == once
    assert "old" not in once
    assert once.startswith("Before.\n\n<!-- one -->\n")
    assert once.endswith("<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n")
    assert "| a rate | 90 /s | 100 /s | 0.90 | ≥ 0.95 | MISSED |" in once
    assert "| a fact | 7 |  | – |  |  |" in once
    assert ratios(once, "one") == {"a rate": 0.90, "a size": 0.50}
    assert ratios(once, "two") == {}


@pytest.mark.parametrize(("ratio", "off"), [(0.29, True), (0.31, False), (2.7, False), (2.8, True)])
def test_a_ratio_far_from_the_table_is_reported(ratio: float, off: bool) -> None:
    found = far_off(written(TEXT, "one", ROWS), "one", [at_least("a rate", 100.0 * ratio, 100.0, "/s", 0.95)])
    assert found == ([f"a rate: {ratio:.2f}, in the table 0.90"] if off else [])


def test_incomparable_rows_are_ignored() -> None:
    text = written(TEXT, "one", [*ROWS, of_goal("a goal", 90.0, 100.0, "/s"), at_most("small", 0.004, 1.0, "s", 1.0)])
    rows = [at_least("new", 1.0, 100.0, "/s", 0.9), seen("a rate", "9"), of_goal("a goal", 9.0, 100.0, "/s")]
    assert far_off(text, "one", [*rows, at_most("small", 0.0149, 1.0, "s", 1.0)]) == []
    assert far_off(text, "one", [at_most("small", 0.02, 1.0, "s", 1.0)])


def test_every_section_has_its_place() -> None:
    assert [section for section in SECTIONS if f"<!-- {section} -->" not in page(section).read_text()] == []
    with pytest.raises(ValueError, match="no place for 'three'"):
        written(TEXT, "three", ROWS)


def test_the_page_of_answers_and_its_plot_follow_from_the_tables() -> None:
    text = answers.FILE.read_text()
    assert answers.with_answers(text) == text
    assert answers.plot() == answers.PLOT.read_text()
    assert len(answers.QUESTIONS) == 12
    assert {each.section for each in answers.QUESTIONS} <= SECTIONS.keys()


def test_an_answer_needs_its_figure() -> None:
    question = answers.QUESTIONS[0]
    with pytest.raises(KeyError, match="no such row"):
        question._replace(row="no such row").answered()
    with pytest.raises(LookupError, match="has no figure"):
        question._replace(found="no such figure").answered()

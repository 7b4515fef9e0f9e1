"""BENCHMARKS.md stores the tables: they can be read again, and the text around them stays."""

import math

import pytest

from benchmarks.record import FILE, far_off, ratios, written
from benchmarks.report import at_least, at_most, of_goal, seen
from benchmarks.sections import SECTIONS

TEXT = "Before.\n\n<!-- one -->\nold\n<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n"
ROWS = [at_least("a rate", 90.0, 100.0, "/s", 0.95), at_most("a size", 1.0, 2.0, "bytes", 1.0), seen("a fact", "7")]


def test_a_table_replaces_the_previous_one() -> None:
    """Write idempotently, and keep other sections and texts."""
    once = written(TEXT, "one", ROWS)
    assert written(once, "one", ROWS) == once
    assert "old" not in once
    assert once.startswith("Before.\n\n<!-- one -->\n")
    assert once.endswith("<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n")
    assert "| a rate | 90 /s | 100 /s | 0.90 | ≥ 0.95 | MISSED |" in once
    assert "| a fact | 7 |  | – |  |  |" in once


def test_ratios_are_read_again() -> None:
    """Read ratios by the first column; a row without a baseline has none."""
    text = written(TEXT, "one", ROWS)
    assert ratios(text, "one") == {"a rate": 0.90, "a size": 0.50}
    assert ratios(text, "two") == {}
    assert math.isnan(ROWS[2].ratio)


@pytest.mark.parametrize(("ratio", "off"), [(0.29, True), (0.31, False), (2.7, False), (2.8, True)])
def test_a_ratio_far_from_the_table_is_reported(ratio: float, off: bool) -> None:
    """Report a difference of more than a factor of three in either direction."""
    found = far_off(written(TEXT, "one", ROWS), "one", [at_least("a rate", 100.0 * ratio, 100.0, "/s", 0.95)])
    assert found == ([f"a rate: {ratio:.2f}, in the table 0.90"] if off else [])


@pytest.mark.parametrize("small", [0.0004, 0.004, 0.0149])
def test_what_rounding_hides_is_not_far_off(small: float) -> None:
    """Allow for the two decimals of a table."""
    text = written(TEXT, "one", [at_most("a share", 0.004, 1.0, "s", 1.0)])
    assert ratios(text, "one") == {"a share": 0.0}
    assert not far_off(text, "one", [at_most("a share", small, 1.0, "s", 1.0)])
    assert far_off(text, "one", [at_most("a share", 0.02, 1.0, "s", 1.0)])


def test_incomparable_rows_are_skipped() -> None:
    """Skip rows that the table lacks, rows without a ratio, and rows with a fixed goal."""
    text = written(TEXT, "one", [*ROWS, of_goal("a goal", 90.0, 100.0, "/s")])
    rows = [at_least("new", 1.0, 100.0, "/s", 0.9), seen("a rate", "9"), of_goal("a goal", 9.0, 100.0, "/s")]
    assert far_off(text, "one", rows) == []
    assert far_off(TEXT, "one", [at_least("a rate", 1.0, 100.0, "/s", 0.9)]) == []


def test_a_section_without_a_place_is_refused() -> None:
    """Raise when the text has no place for the section."""
    with pytest.raises(ValueError, match="no place for 'three'"):
        written(TEXT, "three", ROWS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_its_place(section: str) -> None:
    """Find each section in the repository's file."""
    assert f"<!-- {section} -->" in FILE.read_text()

"""BENCHMARKS.md keeps the tables: what is written is read again, and the text around them stays."""

import math

import pytest

from benchmarks.record import FILE, ratios, written
from benchmarks.report import at_least, at_most, seen
from benchmarks.sections import SECTIONS

TEXT = "Before.\n\n<!-- one -->\nold\n<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n"
ROWS = [at_least("a rate", 90.0, 100.0, "/s", 0.95), at_most("a size", 1.0, 2.0, "bytes", 1.0), seen("a fact", "7")]


def test_a_table_takes_the_place_of_the_one_before() -> None:
    """Once or twice makes no difference, and other sections and texts stay."""
    once = written(TEXT, "one", ROWS)
    assert written(once, "one", ROWS) == once
    assert "old" not in once
    assert once.startswith("Before.\n\n<!-- one -->\n")
    assert once.endswith("<!-- end -->\nBetween.\n<!-- two -->\n<!-- end -->\nAfter.\n")
    assert "| a rate | 90 /s | 100 /s | 0.90 | ≥ 0.95 | MISSED |" in once
    assert "| a fact | 7 |  | – |  |  |" in once


def test_ratios_are_read_again() -> None:
    """By what was measured; where nothing stands beside a figure there is none."""
    text = written(TEXT, "one", ROWS)
    assert ratios(text, "one") == {"a rate": 0.90, "a size": 0.50}
    assert ratios(text, "two") == {}
    assert math.isnan(ROWS[2].ratio)


def test_a_section_without_a_place_is_refused() -> None:
    """Nothing is written to nowhere."""
    with pytest.raises(ValueError, match="no place for 'three'"):
        written(TEXT, "three", ROWS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_its_place(section: str) -> None:
    """In the file of the repository."""
    assert f"<!-- {section} -->" in FILE.read_text()

"""Only a lower bound is called a floor. A do-nothing route is not one: the service can be faster."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "BENCHMARKS.md",
    ROOT / "RESULTS.md",
    ROOT / "docs/load-testing.md",
    ROOT / "benchmarks/papers/README.md",
]
LOWER_BOUNDS = {"measurements/fold.py", "measurements/simulation.py", "papers/figures.py"}
CODE = [
    file
    for file in (ROOT / "benchmarks").rglob("*.py")
    if str(file.relative_to(ROOT / "benchmarks")) not in LOWER_BOUNDS
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_calls_a_route_a_floor(page: Path) -> None:
    """Find no sentence with a floor that is a route, an endpoint or an application."""
    sentences = re.split(r"[.|]\s", page.read_text())
    floors = [sentence for sentence in sentences if re.search(r"\bfloors?\b", sentence, re.IGNORECASE)]
    assert [sentence for sentence in floors if re.search("route|endpoint|application|nothing", sentence)] == []


def test_no_other_benchmark_has_a_floor() -> None:
    """Find the word only in the benchmarks whose baseline is a lower bound."""
    assert [str(file) for file in CODE if re.search("floor", file.read_text(), re.IGNORECASE)] == []

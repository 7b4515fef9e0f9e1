"""The pages of results: the last table of each section, between two comments, within text written by hand."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from benchmarks.report import HEADER, Row, markdown

FOLDER = Path(__file__).parent / "results"


def page(section: str) -> Path:
    """Return the page of a section."""
    return FOLDER / f"{section}.md"


def written(text: str, section: str, rows: Iterable[Row]) -> str:
    """Return the text with the section's table replaced.

    Raises:
        ValueError: if the text has no place for the section.
    """
    place = _place(section)
    if not place.search(text):
        raise ValueError(f"the page has no place for '{section}': write {_opening(section)} and <!-- end -->")
    table = f"{_opening(section)}\n{machine()}\n\n{markdown(rows)}<!-- end -->"
    return place.sub(lambda _: table, text)


def rows_of(text: str, section: str) -> dict[str, list[str]]:
    """Return the cells of a section's last table by the first column."""
    found = _place(section).search(text)
    lines = found.group().splitlines() if found else []
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in cells if len(row) == len(HEADER) and row[0] not in (HEADER[0], "---")}


def ratios(text: str, section: str) -> dict[str, float]:
    """Return the ratios of a section's last table by the first column."""
    rows = rows_of(text, section)
    return {what: float(row[3]) for what, row in rows.items() if re.fullmatch(r"\d+\.\d+", row[3])}


def far_off(text: str, section: str, rows: Iterable[Row], factor: float = 3.0) -> list[str]:
    """Return a line for each row whose ratio differs from the last table's by more than a factor.

    Rows that the table lacks, rows without a ratio, and rows whose ratio depends on the machine are not compared.
    """
    before, rounding = ratios(text, section), 0.005
    return [
        f"{row.what}: {row.ratio:.2f}, in the table {before[row.what]:.2f}"
        for row in rows
        if row.travels and row.what in before
        if row.ratio > factor * (before[row.what] + rounding) or row.ratio * factor < before[row.what] - rounding
    ]


def machine() -> str:
    """Describe the machine and the versions in one line."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "fastapi", "uvicorn", "redis"))
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    system = f"{platform.system()} {platform.release()}"
    return f"{_processor()}, {cores} cores; {system}; Python {platform.python_version()}, {packages}."


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found.group(1) if found else platform.processor() or platform.machine()


def _opening(section: str) -> str:
    return f"<!-- {section} -->"


def _place(section: str) -> re.Pattern[str]:
    return re.compile(re.escape(_opening(section)) + r".*?<!-- end -->", re.DOTALL)

"""The tables of BENCHMARKS.md: the last one of each section, between two comments, within text written by hand."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from benchmarks.report import HEADER, Row, markdown

FILE = Path(__file__).parent.parent / "BENCHMARKS.md"


def written(text: str, section: str, rows: Iterable[Row]) -> str:
    """Return the text with the section's table replaced.

    Raises:
        ValueError: if the text has no place for the section.
    """
    place = _place(section)
    if not place.search(text):
        raise ValueError(f"BENCHMARKS.md has no place for '{section}': write {_opening(section)} and <!-- end -->")
    table = f"{_opening(section)}\n{machine()}\n\n{markdown(rows)}<!-- end -->"
    return place.sub(lambda _: table, text)


def ratios(text: str, section: str) -> dict[str, float]:
    """Return the ratios of a section's last table by the first column."""
    found = _place(section).search(text)
    lines = found.group().splitlines() if found else []
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    numbered = [row for row in cells if len(row) == len(HEADER) and re.fullmatch(r"\d+\.\d+", row[3])]
    return {row[0]: float(row[3]) for row in numbered}


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

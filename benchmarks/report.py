"""The rows of the tables that benchmarks print."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

HEADER = ("what", "measured", "baseline, same run", "ratio", "wanted", "result")


class Row(NamedTuple):
    """A figure, its baseline from the same run, and the required ratio."""

    what: str
    figure: str
    baseline: str
    ratio: float  # NaN without a baseline
    wanted: str  # empty if no ratio is required
    met: bool
    travels: bool = True  # whether other machines give a similar ratio: False if the baseline is a fixed goal

    @property
    def cells(self) -> tuple[str, ...]:
        """The printed cells, in the columns of HEADER."""
        ratio = "–" if math.isnan(self.ratio) else f"{self.ratio:.2f}"
        verdict = "" if not self.wanted else "ok" if self.met else "MISSED"
        return self.what, self.figure, self.baseline, ratio, self.wanted, verdict


def print_rows(title: str, rows: Iterable[Row]) -> None:
    """Print rows as a table."""
    table = Table(*HEADER, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row.cells)
    Console(width=160).print(table)


def markdown(rows: Iterable[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def at_least(what: str, figure: float, baseline: float, unit: str, wanted: float) -> Row:
    """Return a row for a rate that must reach the share `wanted` of its baseline."""
    ratio = figure / baseline
    return Row(what, f"{figure:,.0f} {unit}", f"{baseline:,.0f} {unit}", ratio, f"≥ {wanted:g}", ratio >= wanted)


def at_most(what: str, figure: float, baseline: float, unit: str, wanted: float) -> Row:
    """Return a row for a time or a size that must stay within `wanted` times its baseline."""
    ratio = figure / baseline
    return Row(what, f"{figure:,.2f} {unit}", f"{baseline:,.2f} {unit}", ratio, f"≤ {wanted:g}", ratio <= wanted)


def of_goal(what: str, figure: float, goal: float, unit: str) -> Row:
    """Return a row for a rate compared with a fixed goal."""
    return at_least(what, figure, goal, unit, 1.0)._replace(travels=False)


def seen(what: str, figure: str, baseline: str = "", ratio: float = math.nan) -> Row:
    """Return a row without a required ratio."""
    return Row(what, figure, baseline, ratio, "", True)
